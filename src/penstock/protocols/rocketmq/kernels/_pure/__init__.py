"""RocketMQ's kernel in plain Python: always there, what the compiled one is tested by."""

from penstock.protocols.rocketmq.kernels._pure.properties import find_properties, walk_headers
from penstock.protocols.rocketmq.kernels._pure.scan import check_sums, scan_messages

__all__ = ["check_sums", "find_properties", "scan_messages", "walk_headers"]
