"""Where groups of the newer protocol are kept: a journal of their own, read back at start, last entry of a key wins.

What must not live here: what entries say (`consumer_groups.stored`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.protocols.kafka.consumer_groups import ConsumerCoordinator, Stored
from penstock.seams.journal import Ended, Entry, Journals, Noted
from penstock.seams.locks import Locks
from penstock.seams.patience import patiently
from penstock.seams.runtime import Runtime

__all__ = ["ConsumerGroupLog"]

_TOPIC: Final = "__penstock_kafka_groups"
_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "delete.retention.ms": str(3_600_000),
}


class ConsumerGroupLog:
    """Writes what has changed of a group: all of it in one batch, so that no restart finds half a step."""

    def __init__(self, journals: Journals, runtime: Runtime, coordinator: ConsumerCoordinator) -> None:
        self._journal = journals.journal(_TOPIC, places=1, config=_CONFIG)
        self._runtime = runtime
        self._coordinator = coordinator
        self._locks: Locks[str] = Locks(runtime.promise)
        self._writing: set[str] = set()

    async def load(self) -> Stored:
        """All there is. Raises CorruptBatch, ProtocolViolation, StoreError: nothing is forgotten in silence."""
        stored = Stored()

        def follow(place: int, each: Noted | Ended) -> None:
            if isinstance(each, Noted) and each.key is not None:
                stored.take(each.key, each.value)

        await self._journal.replay(follow)
        return stored

    async def save(self, group_id: str) -> None:
        """Return when all that was decided of the group is durable. Raises StoreError; it is tried again next time.

        Also where somebody else is writing it: an answer tells what others have decided, too.
        """
        if not self._coordinator.has_changes(group_id) and group_id not in self._writing:
            return
        async with self._locks.held(group_id):
            if self._coordinator.has_changes(group_id):
                # One call that is lost must not cost members their places: who is refused may have to begin anew.
                await patiently(self._runtime, lambda: self._write(group_id))

    async def _write(self, group_id: str) -> None:
        whose: frozenset[str | None] = frozenset()

        def compose() -> list[Entry]:
            nonlocal whose
            whose = self._coordinator.changes(group_id)
            return self._coordinator.take_changes(group_id)

        self._writing.add(group_id)
        try:
            await self._journal.append(0, compose)
        except BaseException:
            self._coordinator.give_back(group_id, whose)
            raise
        finally:
            self._writing.discard(group_id)
