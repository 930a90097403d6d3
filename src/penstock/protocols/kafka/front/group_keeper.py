"""Runs the group coordinator: gives it the time, calls it at its deadlines, and carries its records to the log.

What must not live here: decisions about groups (`coordinator`) and wire messages (`apis`).
"""

from __future__ import annotations

import itertools
import logging
import uuid
from collections.abc import Callable

from penstock.errors import PenstockError
from penstock.groups.rebalances import sentence
from penstock.model import Committed, Partition
from penstock.protocols.kafka.coordinator import Coordinator, Group, GroupSettings, Moment, State
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.expiry import has_expired
from penstock.protocols.kafka.front.faults import Refused
from penstock.seams.node import Offsets
from penstock.seams.patience import patiently
from penstock.seams.rebalances import Rebalance
from penstock.seams.runtime import Runtime, Timer

__all__ = ["GroupKeeper"]

_log = logging.getLogger("penstock.node")


class GroupKeeper:
    """The coordinator of this node, alive. After each call to ``coordinator``, call `wake`."""

    def __init__(self, settings: GroupSettings, offsets: Offsets, runtime: Runtime) -> None:
        self._offsets = offsets
        self._runtime = runtime
        self._timer: Timer | None = None
        self._due: float | None = None
        self._stores: dict[str, int] = {}
        self._numbers = itertools.count(1)
        self.coordinator = Coordinator(settings, self, self._new_id, _tell)

    def now(self) -> Moment:
        """Both clocks."""
        return Moment(self._runtime.monotonic(), self._runtime.now_ms())

    async def start(self) -> None:
        """Take over what the log knows. Raises ProtocolViolation for a damaged record."""
        with_offsets = list(await self._offsets.groups())
        self.coordinator.load(await self._offsets.saved_groups(), with_offsets, self.now())
        self.wake()

    def stop(self) -> None:
        """No more deadlines; whoever waits for its group is told to look for the coordinator again."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None
        self.coordinator.stop()

    def wake(self) -> None:
        """Have the timer go off at the coordinator's next deadline."""
        due = self.coordinator.next_deadline()
        if self._timer is not None and due == self._due:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._due = due
        if due is not None:
            self._timer = self._runtime.call_later(max(0.0, due - self._runtime.monotonic()), self._expire)

    def _expire(self) -> None:
        self._timer = None
        self.coordinator.expire(self.now())
        self.wake()

    # What the coordinator calls.

    def store(self, group_id: str, record: bytes, ticket: int | None) -> None:
        self._runtime.spawn(self._store(group_id, record, ticket), f"store group {group_id}")

    async def _store(self, group_id: str, record: bytes, ticket: int | None) -> None:
        number = self._stores[group_id] = next(self._numbers)
        tried = False

        def look() -> None:
            nonlocal tried
            # Who deletes the group may be there first, and has said by then that nothing stays of it. And what is tried
            # again must not come behind what the group has become by now.
            if self.coordinator.group(group_id) is None or (tried and self._stores.get(group_id) != number):
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
            tried = True

        accepted = True
        try:
            # All members wait for this: one call that is lost must not make them join again.
            await patiently(self._runtime, lambda: self._offsets.save_group(group_id, record, look))
        except PenstockError:
            # The members are told by an error they try again on; where nobody waits, the record is of an empty group.
            accepted = False
        if self._stores.get(group_id) == number:  # a later one may have come, and gone, too
            del self._stores[group_id]
        if ticket is not None:
            self.coordinator.stored(group_id, ticket, accepted, self.now())
            self.wake()

    # What needs both, groups and their offsets. A group of which only offsets are known, because it speaks another
    # protocol, is one without members here.

    async def known(self, group_id: str) -> Group | None:
        """A group, also where all that is known of it are its offsets; None if there is none. To be read only."""
        group = self.coordinator.group(group_id)
        if group is None and await self._offsets.committed(group_id):
            return self.coordinator.group(group_id) or Group(group_id)
        return group

    async def all_known(self) -> list[Group]:
        """All of them. To be read only."""
        with_offsets = await self._offsets.groups()
        groups = {group.group_id: group for group in self.coordinator.groups()}
        for group_id in with_offsets:
            groups.setdefault(group_id, Group(group_id))
        return list(groups.values())

    def may_delete_offsets(self, group_id: str, *, has_offsets: bool) -> ErrorCode:
        """Whether OffsetDelete makes sense for the group at all."""
        if has_offsets and self.coordinator.group(group_id) is None:
            return ErrorCode.NONE
        return self.coordinator.may_delete_offsets(group_id)

    async def delete(self, group_id: str) -> ErrorCode:
        """DeleteGroups for one group, durable when it returns. Raises StoreError."""

        def look(has_offsets: bool) -> None:
            # At the last moment: a commit that makes the group anew stands behind this in the log.
            answer = self.coordinator.delete(group_id, self.now())
            self.wake()
            if answer and not (answer is ErrorCode.GROUP_ID_NOT_FOUND and has_offsets):
                raise Refused(answer)

        return await self._delete(group_id, look)

    async def _delete(self, group_id: str, look: Callable[[bool], None]) -> ErrorCode:
        try:
            await self._offsets.delete_group(group_id, look)
        except Refused as refused:
            return refused.code
        return ErrorCode.NONE

    async def expire_offsets(self, retention_ms: int) -> None:
        """Take away what nobody will ask for again, and the groups that have nothing left. Raises StoreError."""
        for group_id in list(await self._offsets.groups()):

            def old(partition: Partition, committed: Committed, group_id: str = group_id) -> bool:
                group = self.coordinator.group(group_id)
                return has_expired(group, partition, committed, self._runtime.now_ms(), retention_ms)

            if any(old(*each) for each in (await self._offsets.committed(group_id)).items()):
                await self._offsets.expire(group_id, old)
        for group in list(self.coordinator.groups()):
            if group.state is State.EMPTY and not group.pending_join:
                await self._forget_if_unused(group.group_id)

    async def _forget_if_unused(self, group_id: str) -> None:
        def look(has_offsets: bool) -> None:
            group = self.coordinator.group(group_id)
            if has_offsets or group is None or group.state is not State.EMPTY or group.pending_join:
                raise Refused(ErrorCode.NON_EMPTY_GROUP)
            self.coordinator.delete(group_id, self.now())
            self.wake()

        standing = await self._offsets.standing(group_id)
        if not standing.committed and not standing.undecided:
            await self._delete(group_id, look)

    def _new_id(self) -> str:
        return str(uuid.UUID(bytes=self._runtime.random_bytes(16), version=4))


def _tell(group_id: str, over: Rebalance) -> None:
    _log.info("group %s: %s", group_id, sentence(over))
