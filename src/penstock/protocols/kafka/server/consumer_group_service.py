"""Runs the coordinator of KIP-848 groups.

`ConsumerGroupService` gives the coordinator the time and the topics, and responds when its decisions are durable.
`ConsumerGroupLog` is the journal of groups, `OwnGroupOptions` that of single groups' options, and `CoordinatorTimer`
calls a coordinator at its deadlines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final, Protocol

from msgspec.structs import replace

from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Runtime, Timer, retry_while_unreachable
from penstock.errors import PenstockError
from penstock.interfaces.admin import Rebalance
from penstock.interfaces.node import OWN_TOPICS, Ended, Entry, Journals, Noted, Services
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import (
    GROUP_BYTES,
    MEMBER_BYTES,
    Group,
    HeldByMembers,
    Join,
    JoinAnswer,
    KeptGroups,
    Leaver,
    Sync,
    SyncAnswer,
    held_by_members,
    kept_groups,
    plain_host,
)
from penstock.protocols.kafka.groups.classic_transitions import Moment, stored_value
from penstock.protocols.kafka.groups.consumer_coordinator import ConsumerCoordinator, check_beat
from penstock.protocols.kafka.groups.consumer_group import (
    JOIN,
    Beat,
    BeatAnswer,
    BeatRefused,
    ConsumerGroupSettings,
    Stored,
    Topic,
    Wanted,
)
from penstock.protocols.kafka.server.limits import MORE_ROOM
from penstock.protocols.kafka.server.refusals import Refused, note
from penstock.protocols.kafka.server.topic_options import Kind, Option, canonical
from penstock.protocols.kafka.wire.stored_records import (
    GroupLogKey,
    GroupOptionsValue,
    LoggedOption,
    read_log_entry,
    write_log_entry,
)

__all__ = [
    "HEARTBEAT",
    "SESSION",
    "SETTABLE",
    "ConsumerGroupLog",
    "ConsumerGroupService",
    "CoordinatorTimer",
    "OlderGroups",
    "OwnGroupOptions",
    "check_group_options",
    "own_settings",
]

# The journal of KIP-848 groups: read back at start; the last entry of a key wins.
_GROUPS_TOPIC: Final = "__penstock_kafka_groups"
_GROUPS_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(4 << 20),
    "delete.retention.ms": str(3_600_000),
}


class ConsumerGroupLog:
    """Writes a group's changes, all in one batch, so that a restart never finds half of a step."""

    def __init__(self, journals: Journals, runtime: Runtime, coordinator: ConsumerCoordinator) -> None:
        self._journal = journals.journal(_GROUPS_TOPIC, places=1, config=_GROUPS_CONFIG)
        self._runtime = runtime
        self._coordinator = coordinator
        self._locks: Locks[str] = Locks(runtime.promise)
        self._writing: set[str] = set()

    async def load(self) -> Stored:
        """All entries. Raises CorruptBatch, ProtocolViolation, StoreError: nothing is dropped silently."""
        stored = Stored()

        def follow(place: int, each: Noted | Ended) -> None:
            if isinstance(each, Noted) and each.key is not None:
                stored.take(each.key, each.value)

        await self._journal.replay(follow)
        return stored

    async def save(self, group_id: str) -> None:
        """Return when all decisions about the group are durable. Raises StoreError; the next call tries again.

        Also waits for a concurrent write of the group: a response may show decisions of other requests.
        """
        if not self._coordinator.has_changes(group_id) and group_id not in self._writing:
            return
        async with self._locks.held(group_id):
            if self._coordinator.has_changes(group_id):
                # A lost write is retried, so that it does not cost members their places: a refused member may have to
                # join again.
                await retry_while_unreachable(self._runtime, lambda: self._write(group_id))

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


# Options of a single group: checked as a real broker does, and turned into the coordinator's settings.
#
# Source: Kafka documentation, "Group Configs"; the error texts are those of Apache Kafka 4.4.0.

HEARTBEAT: Final = "consumer.heartbeat.interval.ms"
SESSION: Final = "consumer.session.timeout.ms"
SETTABLE: Final[Mapping[str, Option]] = {
    HEARTBEAT: Option(Kind.INT, "5000", "How often members of the group are to be heard of."),
    SESSION: Option(Kind.INT, "45000", "When a member of the group counts as gone."),
}


def check_group_options(wanted: Mapping[str, str | None], settings: ConsumerGroupSettings) -> dict[str, str]:
    """The values in the form that is stored; ``settings`` are the node's. Raises Refused."""
    checked = {}
    for name, value in wanted.items():
        if value is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {name}")
        checked[name] = canonical(name, SETTABLE[name], value)
    bounds = {
        HEARTBEAT: (settings.min_heartbeat_interval_ms, settings.max_heartbeat_interval_ms),
        SESSION: (settings.min_session_timeout_ms, settings.max_session_timeout_ms),
    }
    for name, (least, most) in bounds.items():
        if name in checked and not least <= int(checked[name]) <= most:
            raise _refused(f"{name} must be in the range {least} to {most} inclusive.")
    made = own_settings(checked, settings) or settings
    if made.session_timeout_ms <= made.heartbeat_interval_ms:
        raise _refused(f"{SESSION} must be greater than {HEARTBEAT}")
    return checked


def _refused(text: str) -> Refused:
    return Refused(ErrorCode.INVALID_CONFIG, text)


def own_settings(options: Mapping[str, str], settings: ConsumerGroupSettings) -> ConsumerGroupSettings | None:
    """The settings of a group with these options over the node's ``settings``; None if it has no options."""
    if not options:
        return None
    return replace(
        settings,
        session_timeout_ms=int(options.get(SESSION, settings.session_timeout_ms)),
        heartbeat_interval_ms=int(options.get(HEARTBEAT, settings.heartbeat_interval_ms)),
    )


# The journal of single groups' options: read back at start; the last entry of a group wins.
#
# Options outlive their group, as at a real broker.

_OPTIONS_TOPIC: Final = "__penstock_kafka_group_options"
_OPTIONS_CONFIG: Final[Mapping[str, str]] = {
    "cleanup.policy": "compact",
    "segment.bytes": str(1 << 20),
    "delete.retention.ms": str(3_600_000),
}
_MOST: Final = 10_000
"""The most groups with options: any client can set options for groups that do not exist."""


class OwnGroupOptions:
    """Options by group, then by name, as text."""

    def __init__(self, journals: Journals) -> None:
        self._journal = journals.journal(_OPTIONS_TOPIC, places=1, config=_OPTIONS_CONFIG)
        self._known: dict[str, Mapping[str, str]] = {}

    async def load(self) -> Mapping[str, Mapping[str, str]]:
        """All options. Raises CorruptBatch, ProtocolViolation, StoreError."""

        def follow(place: int, each: Noted | Ended) -> None:
            if isinstance(each, Noted) and each.key is not None:
                group = read_log_entry(GroupLogKey, each.key).group
                value = GroupOptionsValue() if each.value is None else read_log_entry(GroupOptionsValue, each.value)
                self._take(group, {option.name: option.value for option in value.options})

        await self._journal.replay(follow)
        return self._known

    def of(self, group_id: str) -> Mapping[str, str]:
        """The group's options."""
        return self._known.get(group_id, {})

    def groups(self) -> list[str]:
        """The groups with options."""
        return sorted(self._known)

    async def set(self, group_id: str, options: Mapping[str, str]) -> None:
        """Replace the group's options; durable when it returns. Raises Refused, StoreError."""

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


# The timer of a coordinator, which has no clock of its own.
class CoordinatorTimer:
    """Calls ``ring`` at the deadline that ``due`` returns, in seconds of the monotonic clock (None: never).

    It may fire early. A deadline that moves to a later time, as a session's does with each heartbeat, does not move the
    timer.
    """

    def __init__(self, runtime: Runtime, due: Callable[[], float | None], ring: Callable[[], None]) -> None:
        self._runtime = runtime
        self._due_of = due
        self._ring = ring
        self._timer: Timer | None = None
        self._due: float | None = None

    def wake(self) -> None:
        """Call this after the deadline may have changed."""
        due = self._due_of()
        if self._timer is not None and self._due is not None and due is not None and self._due <= due:
            return
        self.stop()
        self._due = due
        if due is not None:
            self._timer = self._runtime.call_later(max(0.0, due - self._runtime.monotonic()), self._now)

    def stop(self) -> None:
        """Cancel the timer until the next `wake`."""
        if self._timer is not None:
            self._timer.cancel()
        self._timer = None

    def _now(self) -> None:
        self._timer = None
        self._ring()
        self.wake()


# The service around the coordinator.
_log = logging.getLogger("penstock.node")
_MOST_NAMES = 10_000
_PLACE_BYTES = 300


class OlderGroups(Protocol):
    """The interface to classic groups that the service of KIP-848 groups needs."""

    def topics_of(self, group_id: str) -> frozenset[str]:
        """The topics that a classic group's members subscribe to or are assigned; empty if there is no such group."""
        ...

    def make_way(self, beat: Beat, topics: Mapping[str, Topic]) -> None:
        """Before a heartbeat: delete or convert a classic group of that name. Raises BeatRefused if it must stay."""
        ...

    def adopt(self, group: Group, now: Moment, rests: bool) -> bool:
        """Take over a group that is converted back; see `classic_coordinator.Coordinator.adopt`."""
        ...

    async def keep(self, group_id: str, record: bytes, look: Callable[[], None]) -> None:
        """Write a classic group's record, unless ``look`` raises. Raises Refused, StoreError."""
        ...


class ConsumerGroupService:
    """The service of KIP-848 groups.

    ``on_rebalance`` is called with each finished rebalance and its group's name. ``held`` and ``kept`` count members
    and groups of both protocols.
    """

    def __init__(
        self,
        settings: ConsumerGroupSettings,
        services: Services,
        on_rebalance: Callable[[str, Rebalance], None],
        held: HeldByMembers | None = None,
        kept: KeptGroups | None = None,
    ) -> None:
        self._services = services
        self._settings = settings
        self._runtime = services.runtime
        self._options = OwnGroupOptions(services.journals)
        self.coordinator = ConsumerCoordinator(settings, on_rebalance)
        self._log = ConsumerGroupLog(services.journals, services.runtime, self.coordinator)
        self._alarm = CoordinatorTimer(services.runtime, self.coordinator.not_before, self._expire)
        self._older: OlderGroups | None = None
        self._going: dict[str, bytes] = {}
        self.held = held_by_members(services.memory) if held is None else held
        self._kept = kept_groups(memory=services.memory) if kept is None else kept
        self._weighed: dict[str, set[str]] = {}
        self._locks: Locks[str] = Locks(services.runtime.promise)

    def coexist_with(self, older: OlderGroups) -> None:
        """Set the classic groups; call this before anything else."""
        self._older = older
        self.coordinator.give_back_to(older.adopt)

    def now(self) -> Moment:
        """Monotonic and wall-clock time."""
        return Moment(self._runtime.monotonic(), self._runtime.now_ms())

    async def start(self) -> None:
        """Load groups and options from the journals. Raises ProtocolViolation for a damaged entry."""
        for group_id, options in (await self._options.load()).items():
            self.coordinator.set_own(group_id, own_settings(options, self._settings))
        self.coordinator.load(await self._log.load(), self.now())
        for group in self.coordinator.groups():
            self._weigh(group.group_id)
        self._alarm.wake()

    def stop(self) -> None:
        """Cancel the timer."""
        self._alarm.stop()

    # Options of single groups.

    def options_of(self, group_id: str) -> Mapping[str, str]:
        """The group's options."""
        return self._options.of(group_id)

    def groups_with_options(self) -> list[str]:
        """The groups with options."""
        return self._options.groups()

    async def set_options(self, group_id: str, options: Mapping[str, str]) -> None:
        """Replace the group's options with the result of `check_group_options`. Raises Refused, StoreError."""
        await self._options.set(group_id, options)
        self.coordinator.set_own(group_id, own_settings(options, self._settings))

    # Heartbeats, and joins of members of the classic protocol.

    async def beat(self, beat: Beat) -> BeatAnswer:
        """ConsumerGroupHeartbeat."""
        try:
            check_beat(beat)
            self._check_room(beat)
            topics = await self._topics(lambda: self._wanted(beat))
            if self._older is not None:
                self._older.make_way(beat, topics or {})
            answer = self.coordinator.beat(beat, topics, self.now())
            self._alarm.wake()
            await self.save(beat.group, beat.member_id)
        except BeatRefused as refused:
            return BeatAnswer(refused.code, str(refused))
        except PenstockError as error:
            return BeatAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, str(error))
        return answer

    def _check_room(self, beat: Beat) -> None:
        """Raises BeatRefused if the member would take more memory than the limits allow."""
        if beat.names is not None and len(beat.names) > _MOST_NAMES:
            text = f"{len(beat.names)} topic names; a member may subscribe to {_MOST_NAMES}, or to a pattern."
            raise BeatRefused(ErrorCode.INVALID_REQUEST, text)
        if beat.subscribes or beat.epoch == JOIN:
            size = MEMBER_BYTES + sum(map(len, beat.names or ())) + len(beat.pattern or "")
            reason = self.held.refusal(("newer", beat.group, beat.member_id), beat.client_host, size)
            if reason is None and self.coordinator.group(beat.group) is None:
                reason = self._kept.refusal(("newer", beat.group), plain_host(beat.client_host), GROUP_BYTES)
            if reason is not None:
                _note_no_room(reason)
                raise BeatRefused(ErrorCode.GROUP_MAX_SIZE_REACHED, reason)

    def _weigh(self, group_id: str, member_id: str = "") -> None:
        """Count a member's memory; after joins and leaves also that of the group's other members."""
        group = self.coordinator.group(group_id)
        members = {} if group is None else group.members
        if group is None:
            self._kept.drop(("newer", group_id))
        elif ("newer", group_id) not in self._kept:
            host = next((each.client_host for each in members.values()), None)
            self._kept.take(("newer", group_id), plain_host(host), GROUP_BYTES)
        weighed = self._weighed.get(group_id, set())
        due = {member_id} & members.keys()
        if len(weighed) != len(members) or not due <= weighed:
            due |= members.keys() - weighed
            for gone in weighed - members.keys():
                self.held.drop(("newer", group_id, gone))
            self._weighed[group_id] = set(members)
            if not members:
                del self._weighed[group_id]
        for each in due:
            member = members[each]
            brought = sum(map(len, member.names)) + len(member.pattern) + len(each)
            protocols = () if member.older is None else member.older.protocols
            brought += sum(len(name) + len(metadata) for name, metadata in protocols)
            brought += _PLACE_BYTES * (len(member.assigned) + len(member.target))
            self.held.take(("newer", group_id, each), member.client_host, MEMBER_BYTES + brought)

    def _wanted(self, beat: Beat) -> Wanted | None:
        wanted = self.coordinator.wanted(beat, self.now())
        older = self._older.topics_of(beat.group) if self._older is not None and beat.epoch == JOIN else frozenset()
        return wanted if wanted is None else Wanted(wanted.names | older, wanted.every)

    async def join(self, request: Join, new_id: str) -> JoinAnswer | None:
        """JoinGroup; None if there is no such KIP-848 group with members."""
        size = MEMBER_BYTES + sum(len(name) + len(metadata) for name, metadata in request.protocols)
        if reason := self.held.refusal(("newer", request.group, request.member_id), request.client_host, size):
            _note_no_room(reason)
            return JoinAnswer(ErrorCode.GROUP_MAX_SIZE_REACHED, request.member_id)
        try:
            topics = await self._topics(lambda: self.coordinator.older_members.wanted(request))
            answer = self.coordinator.older_members.join(request, topics or {}, self.now(), new_id)
            self._alarm.wake()
            if answer is not None:
                await self.save(request.group)
        except PenstockError:
            return JoinAnswer(ErrorCode.COORDINATOR_NOT_AVAILABLE, request.member_id)
        return answer

    async def _topics(self, ask: Callable[[], Wanted | None]) -> dict[str, Topic] | None:
        """The wanted topics that exist; repeated for topics that were added to the subscriptions meanwhile."""
        wanted, found = ask(), None
        while wanted is not None:
            found = await self._found(wanted)
            looked_up, wanted = wanted, ask()
            if wanted is None or looked_up.covers(wanted):
                break
        return found

    async def _found(self, wanted: Wanted) -> dict[str, Topic]:
        enode = self._services.enode
        if wanted.every:
            # A real broker's patterns match its own internal topics, too; topics that only a penstock node has are left
            # out.
            topics = [each for each in await enode.topics() if not each.name.startswith(OWN_TOPICS)]
            return {each.name: Topic(each.id, each.partitions) for each in topics}
        found = [await enode.topic(name) for name in sorted(wanted.names)]
        return {each.name: Topic(each.id, each.partitions) for each in found if each is not None}

    def sync(self, request: Sync) -> SyncAnswer | None:
        """SyncGroup; None if there is no such KIP-848 group with members."""
        if self.coordinator.group(request.group) is None:
            return None
        answer = self.coordinator.older_members.sync(request, self.now())
        self._alarm.wake()
        return answer

    def heartbeat(self, group_id: str, member_id: str, instance_id: str | None, generation: int) -> ErrorCode | None:
        """Heartbeat; None if there is no such KIP-848 group with members."""
        if self.coordinator.group(group_id) is None:
            return None
        answer = self.coordinator.older_members.heartbeat(group_id, member_id, instance_id, generation, self.now())
        self._alarm.wake()
        return answer

    async def leave(self, group_id: str, leavers: Sequence[Leaver]) -> list[ErrorCode] | None:
        """LeaveGroup; None if there is no such KIP-848 group. Raises StoreError."""
        codes = self.coordinator.leave(group_id, leavers, self.now())
        self._alarm.wake()
        await self.save(group_id)
        return codes

    # Conversion between the protocols.

    def convert(self, group: Group, beat: Beat, topics: Mapping[str, Topic]) -> None:
        """Take over a classic group, which the caller then releases there. Raises BeatRefused."""
        self.coordinator.convert(group, beat, topics)
        self._going.pop(group.group_id, None)
        self.coordinator.begin_sessions(group.group_id, self.now())

    def give_way(self, group_id: str) -> None:
        """Delete a group without members, so that it can become a classic group."""
        if self.coordinator.group(group_id) is not None and not self.coordinator.delete(group_id):
            self.goes(group_id, stored_value(Group(group_id, state_since_ms=self.now().wall_ms), {}))

    def goes(self, group_id: str, record: bytes) -> None:
        """The group is a classic group from now on. ``record`` is its first record as such.

        The record is written before the group's entries here are deleted. So a restart in between finds the KIP-848
        group as it was, and never the classic group from before its conversion.
        """
        self._going[group_id] = record
        self._runtime.spawn(self._saved(group_id), f"store group {group_id}")

    def forget(self, group_id: str) -> None:
        """The classic group is deleted, too."""
        self._going.pop(group_id, None)

    async def save(self, group_id: str, member_id: str = "") -> None:
        """Return when all decisions about the group are durable. Raises StoreError.

        ``member_id``: the member whose request was served, and whose memory may have changed.
        """
        if self.coordinator.has_changes(group_id):  # every change of a member's memory is a change to write
            self._weigh(group_id, member_id)
        if group_id in self._going:
            async with self._locks.held(group_id):
                await self._go(group_id)
        await self._log.save(group_id)

    async def _go(self, group_id: str) -> None:
        record = self._going.get(group_id)

        def look() -> None:
            if self._going.get(group_id) is not record:
                raise Refused(ErrorCode.GROUP_ID_NOT_FOUND)

        if record is not None and self._older is not None:
            with suppress(Refused):
                await self._older.keep(group_id, record, look)
            await self._log.save(group_id)
            if self._going.get(group_id) is record:
                del self._going[group_id]

    def _expire(self) -> None:
        for group_id in self.coordinator.expire(self.now()):
            self._runtime.spawn(self._saved(group_id), f"store group {group_id}")

    async def _saved(self, group_id: str) -> None:
        try:
            await self.save(group_id)
        except PenstockError as error:
            _log.warning("cannot store what became of group %s, will try with its next heartbeat: %s", group_id, error)


def _note_no_room(reason: str) -> None:
    code = ErrorCode.GROUP_MAX_SIZE_REACHED
    note(code, Refused(code, reason, hint=MORE_ROOM))
