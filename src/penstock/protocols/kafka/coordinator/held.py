"""Groups, and what their members take in memory, which clients leave behind when they go: counted, and limited.

Source: Kafka limits the members of a group (``group.max.size``), and what they bring by the heap alone.
"""

from __future__ import annotations

from typing import TypeAlias

from penstock.seams.memory import UNLIMITED, Memory
from penstock.seams.shares import ADDRESS_PERCENT, Shares

__all__ = ["GROUP_BYTES", "MEMBER_BYTES", "HeldByMembers", "KeptGroups", "held_by_members", "kept_groups", "plain_host"]

MEMBER_BYTES = 4_000
"""What a member takes that brings nothing, or an id that was given to one that has not joined yet: with its group, and
the one JoinGroup or SyncGroup of its that may wait."""
GROUP_BYTES = 2_000
"""What a group takes without members and offsets."""
_PART_OF_MEMORY = 4
_MAX_GROUPS = 16_000
_NUMBER = 1 << 40
"""Their bytes alone are limited; members of one group by ``group_max_size``."""

HeldByMembers: TypeAlias = Shares[tuple[str, ...]]
"""By group and member; by "newer", group and member for groups of KIP-848. The owner is the member's host."""


def held_by_members(memory: Memory = UNLIMITED, address_percent: int = ADDRESS_PERCENT) -> HeldByMembers:
    """Where members of all groups are counted: a quarter of the memory, of which one address may have its share."""
    return Shares("members of groups", "memory_bytes", _NUMBER, memory, address_percent, _PART_OF_MEMORY)


KeptGroups: TypeAlias = Shares[tuple[str, ...]]
"""By name; by "newer" and name for groups of KIP-848. The owner is the host that made the group; a group that was found
in the log has none."""


def kept_groups(
    most: int = _MAX_GROUPS, memory: Memory = UNLIMITED, address_percent: int = ADDRESS_PERCENT
) -> KeptGroups:
    """Where groups of both protocols are counted, with members or without."""
    return Shares("groups", "max_groups", most, memory, address_percent)


def plain_host(client_host: str | None) -> str | None:
    """An address as other protocols write it: Kafka's tools show it with a slash before."""
    return None if client_host is None else client_host.removeprefix("/")
