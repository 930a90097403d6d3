"""TubeMQ's kernel in plain Python: always there, what the compiled one is tested by."""

from penstock.protocols.tubemq.kernels._pure.messages import (
    checksums,
    count_messages,
    encode_payloads,
    gather_texts,
    walk_attributes,
    walk_messages,
    wrap_messages,
)

__all__ = [
    "checksums",
    "count_messages",
    "encode_payloads",
    "gather_texts",
    "walk_attributes",
    "walk_messages",
    "wrap_messages",
]
