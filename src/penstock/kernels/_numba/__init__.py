"""The kernel compiled by numba: the same functions as the pure one, several times as fast.

Importing this package imports numba (0.2 s); only `penstock.kernels` does so, at the first large piece of work.
"""

from penstock.kernels._numba.records import check_crcs as check_crcs
from penstock.kernels._numba.records import encode_records as encode_records
from penstock.kernels._numba.records import gather as gather
from penstock.kernels._numba.records import gathered as gathered
from penstock.kernels._numba.records import last_batch as last_batch
from penstock.kernels._numba.records import scan_batches as scan_batches
from penstock.kernels._numba.records import walk_headers as walk_headers
from penstock.kernels._numba.records import walk_records as walk_records

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

COMPILED = True
