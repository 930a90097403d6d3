"""TubeMQ's kernel compiled by numba: the same functions as the pure one."""

from penstock.protocols.tubemq.kernels._numba.messages import (
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
