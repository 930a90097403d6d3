"""Options of single groups, where they are kept: a journal of their own, read back at start, the last entry of a group.

They stay when their group goes, as at a real broker. What must not live here: which options there are
(`group_settings`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.faults import Refused
from penstock.protocols.kafka.messages.consumer_group_log import (
    GroupLogKey,
    GroupOptionsValue,
    LoggedOption,
    read_log_entry,
    write_log_entry,
)
from penstock.seams.journal import Ended, Entry, Journals, Noted

__all__ = ["OwnGroupOptions"]

_TOPIC: Final = "__penstock_kafka_group_options"
_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "delete.retention.ms": str(3_600_000),
}
_MOST: Final = 10_000
"""Groups that may have some: whoever reaches the node can name groups that nobody has heard of."""


class OwnGroupOptions:
    """By group, then by name, as text."""

    def __init__(self, journals: Journals) -> None:
        self._journal = journals.journal(_TOPIC, places=1, config=_CONFIG)
        self._known: dict[str, Mapping[str, str]] = {}

    async def load(self) -> Mapping[str, Mapping[str, str]]:
        """All there is. Raises CorruptBatch, ProtocolViolation, StoreError."""

        def follow(place: int, each: Noted | Ended) -> None:
            if isinstance(each, Noted) and each.key is not None:
                group = read_log_entry(GroupLogKey, each.key).group
                value = GroupOptionsValue() if each.value is None else read_log_entry(GroupOptionsValue, each.value)
                self._take(group, {option.name: option.value for option in value.options})

        await self._journal.replay(follow)
        return self._known

    def of(self, group_id: str) -> Mapping[str, str]:
        """What was set for that group."""
        return self._known.get(group_id, {})

    def groups(self) -> list[str]:
        """Those that have some."""
        return sorted(self._known)

    async def set(self, group_id: str, options: Mapping[str, str]) -> None:
        """Replace what was set for that group; durable when it returns. Raises Refused, StoreError."""

        def compose() -> list[Entry]:
            if options and group_id not in self._known and len(self._known) >= _MOST:
                text = f"{_MOST:,} groups have options of their own: take those of groups away that are gone"
                raise Refused(ErrorCode.INVALID_REQUEST, text)
            named = [LoggedOption(name=name, value=value) for name, value in sorted(options.items())]
            value = write_log_entry(GroupOptionsValue(options=named)) if named else None
            return [(write_log_entry(GroupLogKey(group=group_id)), value)]

        if options or group_id in self._known:
            await self._journal.append(0, compose)
            self._take(group_id, options)

    def _take(self, group_id: str, options: Mapping[str, str]) -> None:
        self._known.pop(group_id, None)
        if options:
            self._known[group_id] = options
