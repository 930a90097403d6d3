"""Records as Arrow columns: batches in and out, compression, schemas, and `Messages`, the view users get."""

from penstock.columnar.batch import BatchHeader as BatchHeader
from penstock.columnar.builder import BatchBuilder as BatchBuilder
from penstock.columnar.decode import Decoded as Decoded
from penstock.columnar.decode import decode_v2 as decode_v2
from penstock.columnar.encode import Producing as Producing
from penstock.columnar.encode import encode_v2 as encode_v2
from penstock.columnar.messages import Messages as Messages
from penstock.columnar.messages import Part as Part

__all__ = ["BatchBuilder", "BatchHeader", "Decoded", "Messages", "Part", "Producing", "decode_v2", "encode_v2"]
