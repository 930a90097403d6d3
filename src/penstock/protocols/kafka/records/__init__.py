"""Kafka's record formats: record batches v2 and the message sets (v0, v1) before them, to columns and back."""

from penstock.columnar.decode import Decoded as Decoded
from penstock.columnar.encode import encode_v2 as encode
from penstock.columnar.few import encode_few as encode_few
from penstock.columnar.producing import Producing as Producing
from penstock.protocols.kafka.records.dispatch import decode as decode

__all__ = ["Decoded", "Producing", "decode", "encode", "encode_few"]
