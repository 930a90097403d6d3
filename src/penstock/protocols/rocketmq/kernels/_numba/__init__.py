"""RocketMQ's kernel compiled by numba: the same functions as the pure one."""

from penstock.protocols.rocketmq.kernels._numba.properties import find_properties, walk_headers
from penstock.protocols.rocketmq.kernels._numba.scan import check_sums, scan_messages

__all__ = ["check_sums", "find_properties", "scan_messages", "walk_headers"]
