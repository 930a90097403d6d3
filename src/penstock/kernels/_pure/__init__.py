"""The kernel in Python and NumPy: always available, millions of records a second, and the reference in tests."""

from penstock.kernels._pure.batches import check_crcs as check_crcs
from penstock.kernels._pure.batches import gather as gather
from penstock.kernels._pure.batches import gathered as gathered
from penstock.kernels._pure.batches import last_batch as last_batch
from penstock.kernels._pure.batches import scan_batches as scan_batches
from penstock.kernels._pure.records import encode_records as encode_records
from penstock.kernels._pure.records import walk_headers as walk_headers
from penstock.kernels._pure.records import walk_records as walk_records

__all__ = [
    "COMPILED",
    "check_crcs",
    "encode_records",
    "gather",
    "gathered",
    "last_batch",
    "scan_batches",
    "walk_headers",
    "walk_records",
]

COMPILED = False
