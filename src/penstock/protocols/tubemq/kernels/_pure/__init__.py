"""TubeMQ's kernel in plain Python: always there, what the compiled one is tested by."""

from penstock.protocols.tubemq.kernels._pure.encode import encode_payloads
from penstock.protocols.tubemq.kernels._pure.headers import gather_texts, walk_attributes
from penstock.protocols.tubemq.kernels._pure.walk import count_messages, walk_messages
from penstock.protocols.tubemq.kernels._pure.wrap import checksums, wrap_messages

__all__ = [
    "checksums",
    "count_messages",
    "encode_payloads",
    "gather_texts",
    "walk_attributes",
    "walk_messages",
    "wrap_messages",
]
