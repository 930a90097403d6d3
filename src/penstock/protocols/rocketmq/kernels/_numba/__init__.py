"""RocketMQ's kernel compiled by numba; it has the same functions as the pure one."""

from __future__ import annotations

from penstock.protocols.rocketmq.kernels._numba.messages import check_sums, find_properties, scan_messages, walk_headers

__all__ = ["check_sums", "find_properties", "scan_messages", "walk_headers"]
