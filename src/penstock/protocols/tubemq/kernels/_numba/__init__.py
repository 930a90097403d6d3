"""TubeMQ's kernel compiled by numba: the same functions as the pure one."""

from penstock.protocols.tubemq.kernels._numba.encode import encode_payloads
from penstock.protocols.tubemq.kernels._numba.headers import gather_texts, walk_attributes
from penstock.protocols.tubemq.kernels._numba.walk import count_messages, walk_messages
from penstock.protocols.tubemq.kernels._numba.wrap import checksums, wrap_messages

__all__ = [
    "checksums",
    "count_messages",
    "encode_payloads",
    "gather_texts",
    "walk_attributes",
    "walk_messages",
    "wrap_messages",
]
