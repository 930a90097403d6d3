"""TubeMQ's part of the compiled kernel; imported by whoever reads or writes TubeMQ, and by nobody else."""

from penstock.kernels._numba.tube_encode import encode_payloads
from penstock.kernels._numba.tube_headers import gather_texts, walk_attributes
from penstock.kernels._numba.tube_walk import count_messages, walk_messages
from penstock.kernels._numba.tube_wrap import checksums, wrap_messages

__all__ = [
    "checksums",
    "count_messages",
    "encode_payloads",
    "gather_texts",
    "walk_attributes",
    "walk_messages",
    "wrap_messages",
]
