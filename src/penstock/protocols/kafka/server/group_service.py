"""Runs the coordinator of classic groups, and forwards requests to that of KIP-848 groups; expires offsets."""

from __future__ import annotations

import base64
import itertools
import logging
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence

from penstock.concurrency.runtime import Runtime, retry_while_unreachable
from penstock.errors import PenstockError
from penstock.groups.rebalance_history import sentence
from penstock.interfaces.admin import Rebalance
from penstock.interfaces.node import CommittedUntil, Offsets
from penstock.model import Committed, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_coordinator import Coordinator
from penstock.protocols.kafka.groups.classic_group import (
    CommitIdentity,
    Group,
    GroupSettings,
    HeldByMembers,
    Join,
    JoinAnswer,
    KeptGroups,
    Leaver,
    State,
    Sync,
)
from penstock.protocols.kafka.groups.classic_transitions import Moment, stored_value
from penstock.protocols.kafka.groups.consumer_group import JOIN, Beat, BeatRefused, ConsumerGroup, Topic
from penstock.protocols.kafka.groups.consumer_transitions import topics_of_group
from penstock.protocols.kafka.server.consumer_group_service import ConsumerGroupService, CoordinatorTimer
from penstock.protocols.kafka.server.limits import MORE_ROOM
from penstock.protocols.kafka.server.refusals import Refused, note

__all__ = ["GroupService", "has_expired", "log_rebalance", "newer_has_expired"]


# Expiry of committed offsets: Kafka's rules (KIP-211), as a function of a group's state and two times.
def has_expired(
    group: Group | None, partition: Partition, committed: Committed, now_ms: int, retention_ms: int
) -> bool:
    """Whether an offset is older than ``retention_ms``, counted from the time that Kafka uses.

    - a group without members that had some: from when the last one left, or from a later commit;
    - a group that never had members (``group`` None: one with offsets only): from the commit;
    - a group with an assignment: from the commit, but only for topics that no member reads any more;
    - in between (rebalancing, unknown subscriptions): nothing expires.

    An expiry time in the commit itself replaces ``retention_ms``; the rest stays the same.
    """
    since = 0
    read: frozenset[str] = frozenset()
    if group is not None and group.protocol_type is not None:
        if group.state is State.EMPTY:
            since = group.state_since_ms
        elif group.state is State.STABLE and group.subscribed is not None:
            read = group.subscribed
        else:
            return False
    return partition.topic not in read and _is_over(committed, since, now_ms, retention_ms)


def newer_has_expired(
    group: ConsumerGroup, partition: Partition, committed: Committed, now_ms: int, retention_ms: int
) -> bool:
    """The same for a KIP-848 group: counted from the commit, and never for topics that a member wants."""
    return partition.topic not in group.wanted() and _is_over(committed, 0, now_ms, retention_ms)


def _is_over(committed: Committed, since: int, now_ms: int, retention_ms: int) -> bool:
    if isinstance(committed, CommittedUntil):
        return now_ms >= committed.expires_ms
    return now_ms - max(since, committed.timestamp_ms) >= retention_ms


# The service around the coordinators: gives them the time, calls them at their deadlines, writes their records.
#
# A group has one protocol at a time. A group without members can switch. A group with members is converted when the
# first member joins with the KIP-848 protocol, and back when the last such member leaves (Kafka's
# ``group.consumer.migration.policy``).

_log = logging.getLogger("penstock.node")


class GroupService:
    """The group coordinators of this node. After each call to ``coordinator``, call `wake`.

    ``newer``: the service of KIP-848 groups. ``near``: the log is local, so writes usually complete at once, and a
    record is written at the end of the call that made it, without a task. ``held`` counts the memory of members;
    ``kept`` counts groups.
    """

    def __init__(
        self,
        settings: GroupSettings,
        newer: ConsumerGroupService,
        offsets: Offsets,
        runtime: Runtime,
        *,
        near: bool = False,
        held: HeldByMembers | None = None,
        kept: KeptGroups | None = None,
    ) -> None:
        self._offsets = offsets
        self._runtime = runtime
        self._near = near
        self._stores: dict[str, int] = {}
        self._unbegun: list[tuple[str, Group | None, bytes, int | None]] = []
        self._numbers = itertools.count(1)
        self.coordinator = Coordinator(settings, self, self._new_id, log_rebalance, held, kept)
        self.coordinator.no_room = _note_no_room
        self.newer = newer
        newer.coexist_with(self)
        self._alarm = CoordinatorTimer(runtime, self.coordinator.not_before, self._expire)

    def now(self) -> Moment:
        """Monotonic and wall-clock time."""
        return Moment(self._runtime.monotonic(), self._runtime.now_ms())

    async def start(self) -> None:
        """Load the groups from the log. Raises ProtocolViolation for a damaged record."""
        await self.newer.start()
        with_offsets = [each for each in await self._offsets.groups() if not self._is_newer(each)]
        # A group that was converted to the KIP-848 protocol left its record behind.
        saved = {name: each for name, each in (await self._offsets.saved_groups()).items() if not self._is_newer(name)}
        self.coordinator.load(saved, with_offsets, self.now())
        self.wake()

    def _is_newer(self, group_id: str) -> bool:
        return self.newer.coordinator.group(group_id) is not None

    def stop(self) -> None:
        """Cancel timers. Waiting members get an error on which they look up the coordinator again."""
        self._alarm.stop()
        self.newer.stop()
        self.coordinator.stop()

    def wake(self) -> None:
        """Set the timer for the coordinator's next deadline, and write its new records."""
        self._begin_stores()
        self._alarm.wake()

    def _expire(self) -> None:
        self.coordinator.expire(self.now())
        self._begin_stores()

    # A group's protocol, and conversions.

    def topics_of(self, group_id: str) -> frozenset[str]:
        group = self.coordinator.group(group_id)
        return frozenset() if group is None else topics_of_group(group)

    def make_way(self, beat: Beat, topics: Mapping[str, Topic]) -> None:
        group = self.coordinator.group(beat.group)
        if group is None or self._is_newer(beat.group):
            return
        if beat.epoch != JOIN:
            raise BeatRefused(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {beat.group} is not a consumer group.")
        if group.state is State.EMPTY:
            self.coordinator.delete(beat.group, self.now())
            self.newer.forget(beat.group)
        else:
            self.newer.convert(group, beat, topics)
            self.coordinator.release(beat.group)
        self.wake()

    def adopt(self, group: Group, now: Moment, rests: bool) -> bool:
        record = stored_value(group, {each.member_id: each.assignment for each in group.members.values()})
        if not self.coordinator.adopt(group, now, rests=rests):
            return False
        self.newer.goes(group.group_id, record)
        self.wake()
        return True

    async def keep(self, group_id: str, record: bytes, look: Callable[[], None]) -> None:
        await retry_while_unreachable(self._runtime, lambda: self._offsets.save_group(group_id, record, look))

    # Requests of the classic protocol, to groups of both.

    async def join(self, request: Join) -> JoinAnswer | None:
        """JoinGroup: the response for a KIP-848 group; else None, and the response comes through the request."""
        fault = self.coordinator.bounds_fault(request)
        if not fault and self._is_newer(request.group):
            random = self._runtime.random_bytes(16)
            answer = await self.newer.join(request, base64.urlsafe_b64encode(random).rstrip(b"=").decode())
            if answer is not None:
                return answer
            self.newer.give_way(request.group)
        self.coordinator.join(request, self.now())
        self.wake()
        return None

    def sync(self, request: Sync) -> None:
        """SyncGroup; the response comes through ``request.reply``."""
        answer = self.newer.sync(request)
        if answer is not None:
            request.reply(answer)
            return
        self.coordinator.sync(request, self.now())
        self.wake()

    def leads(self, group_id: str, member_id: str) -> bool:
        """Whether the member leads its classic group."""
        group = self.coordinator.group(group_id)
        return group is not None and group.leader == member_id

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode:
        """Heartbeat."""
        code = self.newer.heartbeat(group_id, member_id, instance_id, generation)
        if code is None:
            code = self.coordinator.heartbeat(group_id, member_id, instance_id, generation, self.now())
            self.wake()
        return code

    async def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ErrorCode]:
        """LeaveGroup: one code per leaver. Raises StoreError."""
        codes = await self.newer.leave(group_id, leavers)
        if codes is None:
            codes = self.coordinator.leave(group_id, leavers, self.now())
            self.wake()
        return codes

    def may_commit(
        self, identity: CommitIdentity, partitions: Iterable[tuple[str, int]], *, knows_epochs: bool
    ) -> ErrorCode:
        """Whether offsets of these partitions may be committed now."""
        fault = self.newer.coordinator.commit_fault(identity, partitions, knows_epochs=knows_epochs)
        if fault is None:
            fault = self.coordinator.may_commit(identity, self.now())
            self.wake()
        return fault

    def may_commit_within(self, identity: CommitIdentity, partitions: Iterable[tuple[str, int]]) -> ErrorCode:
        """Whether these may be committed within a transaction, with the codes of TxnOffsetCommit v6."""
        fault = self.newer.coordinator.commit_fault(identity, partitions, knows_epochs=True)
        if fault is None:
            code = self.coordinator.may_commit_within(identity, self.now())
            self.wake()
            return code
        if identity.anonymous:
            return ErrorCode.NONE  # producers before KIP-447 send no member
        return fault

    def is_subscribed(self, group_id: str, topic: str) -> bool:
        """Whether members read the topic, as far as is known."""
        return self.newer.coordinator.is_subscribed(group_id, topic) or self.coordinator.is_subscribed(group_id, topic)

    # Called by the coordinator.

    def store(self, group_id: str, record: bytes, ticket: int | None) -> None:
        group = self.coordinator.group(group_id)
        if self._near:
            self._unbegun.append((group_id, group, record, ticket))  # written after the coordinator's step
        else:
            self._runtime.spawn(self._store(group_id, group, record, ticket), f"store group {group_id}")

    def _begin_stores(self) -> None:
        while self._unbegun:
            group_id, group, record, ticket = self._unbegun.pop(0)
            self._runtime.begin(self._store(group_id, group, record, ticket), f"store group {group_id}")

    async def _store(self, group_id: str, group: Group | None, record: bytes, ticket: int | None) -> None:
        number = self._stores[group_id] = next(self._numbers)
        tried = False

        def look() -> None:
            nonlocal tried
            # The group may have been deleted or converted meanwhile: then nothing of it may be written. And a retry
            # must not overwrite a later record of the group.
            there = self.coordinator.group(group_id)
            if there is None or there is not group or (tried and self._stores.get(group_id) != number):
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)
            tried = True

        accepted = True
        try:
            await self.newer.save(group_id)  # the group's end as a KIP-848 group, if it was converted back
            # All members wait for this: a lost write is retried, so that they need not join again.
            await retry_while_unreachable(self._runtime, lambda: self._offsets.save_group(group_id, record, look))
        except PenstockError:
            # Waiting members get a retriable error; if none waits, the record is that of an empty group.
            accepted = False
        if self._stores.get(group_id) == number:  # no later store has begun
            del self._stores[group_id]
        if ticket is not None:
            self.coordinator.stored(group_id, ticket, accepted, self.now())
            self.wake()

    # Operations on groups and their offsets. A group that has only offsets, from a client without membership, counts as
    # a group without members here.

    async def known(self, group_id: str) -> Group | None:
        """A classic group, or one with offsets only; None if there is none. Not to be changed."""
        if self._is_newer(group_id):
            return None
        group = self.coordinator.group(group_id)
        if group is None and await self._offsets.committed(group_id) and not self._is_newer(group_id):
            return self.coordinator.group(group_id) or Group(group_id, held=self.coordinator.held)
        return group

    async def all_known(self) -> list[Group]:
        """All of them. Not to be changed."""
        with_offsets = [each for each in await self._offsets.groups() if not self._is_newer(each)]
        groups = {group.group_id: group for group in self.coordinator.groups()}
        for group_id in with_offsets:
            groups.setdefault(group_id, Group(group_id, held=self.coordinator.held))
        return list(groups.values())

    def may_delete_offsets(self, group_id: str, *, has_offsets: bool) -> ErrorCode:
        """Whether OffsetDelete is possible for the group at all."""
        if self._is_newer(group_id) or (has_offsets and self.coordinator.group(group_id) is None):
            return ErrorCode.NONE
        return self.coordinator.may_delete_offsets(group_id)

    async def delete(self, group_id: str) -> ErrorCode:
        """DeleteGroups for one group, durable when it returns. Raises StoreError."""

        def look(has_offsets: bool) -> None:
            # Checked at the last moment: a commit that creates the group again comes after the deletion in the log.
            answer = self._delete_now(group_id)
            if answer and not (answer is ErrorCode.GROUP_ID_NOT_FOUND and has_offsets):
                raise Refused(answer)

        return await self._delete(group_id, look)

    def _delete_now(self, group_id: str) -> ErrorCode:
        answer = self.newer.coordinator.delete(group_id)
        if answer is ErrorCode.GROUP_ID_NOT_FOUND:
            answer = self.coordinator.delete(group_id, self.now())
            self.wake()
        if not answer:
            self.newer.forget(group_id)
        return answer

    async def _delete(self, group_id: str, look: Callable[[bool], None]) -> ErrorCode:
        try:
            await self._offsets.delete_group(group_id, look)
            await self.newer.save(group_id)
        except Refused as refused:
            return refused.code
        return ErrorCode.NONE

    async def expire_offsets(self, retention_ms: int) -> None:
        """Delete expired offsets, and groups with nothing left. Raises StoreError."""
        for group_id in list(await self._offsets.groups()):

            def old(partition: Partition, committed: Committed, group_id: str = group_id) -> bool:
                newer = self.newer.coordinator.group(group_id)
                if newer is not None:
                    return newer_has_expired(newer, partition, committed, self._runtime.now_ms(), retention_ms)
                group = self.coordinator.group(group_id)
                return has_expired(group, partition, committed, self._runtime.now_ms(), retention_ms)

            if any(old(*each) for each in (await self._offsets.committed(group_id)).items()):
                await self._offsets.expire(group_id, old)
        for group in list(self.coordinator.groups()):
            if group.state is State.EMPTY and not group.pending_join:
                await self._forget_if_unused(group.group_id)
        for newer in list(self.newer.coordinator.groups()):
            if not newer.members:
                await self._forget_if_unused(newer.group_id)

    async def _forget_if_unused(self, group_id: str) -> None:
        def look(has_offsets: bool) -> None:
            group = self.coordinator.group(group_id)
            if has_offsets or (group is not None and group.pending_join) or self._delete_now(group_id):
                raise Refused(ErrorCode.NON_EMPTY_GROUP)

        standing = await self._offsets.standing(group_id)
        if not standing.committed and not standing.undecided:
            await self._delete(group_id, look)

    def _new_id(self) -> str:
        return str(uuid.UUID(bytes=self._runtime.random_bytes(16), version=4))


def _note_no_room(code: ErrorCode, reason: str) -> None:
    note(code, Refused(code, reason, hint=MORE_ROOM))


def log_rebalance(group_id: str, over: Rebalance) -> None:
    """Log a rebalance."""
    if _log.isEnabledFor(logging.INFO):  # building the text takes longer than a join
        _log.info("group %s: %s", group_id, sentence(over))
