"""Which operations a client may do, as bit sets: all of them, since nobody is told apart here (KIP-430)."""

from __future__ import annotations

from typing import Final

__all__ = ["CLUSTER_OPERATIONS", "GROUP_OPERATIONS", "TOPIC_OPERATIONS", "shown"]

_NOT_ASKED: Final = -(1 << 31)

READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, CLUSTER_ACTION = 3, 4, 5, 6, 7, 8, 9
DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE = 10, 11, 12


def _bits(*codes: int) -> int:
    return sum(1 << code for code in codes)


CLUSTER_OPERATIONS: Final = _bits(
    CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE
)
TOPIC_OPERATIONS: Final = _bits(READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS)
GROUP_OPERATIONS: Final = _bits(READ, DELETE, DESCRIBE)


def shown(operations: int, asked: bool) -> int:
    """The field's value: the operations where they were asked for, else Kafka's "not asked"."""
    return operations if asked else _NOT_ASKED
