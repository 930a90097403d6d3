"""A consumer in a group, under either kind of balancing: its id, its partitions, pulling and heartbeats."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, Protocol

from penstock.config.client import ClientLog, whose
from penstock.errors import ConfigError, LocalError, PenstockError, ServerError, UsageError
from penstock.interfaces.channel import Retry
from penstock.interfaces.client import BatchMembership, Beat, GroupOptions, Verdict
from penstock.model import Assignment, Committed, Offset, Partition
from penstock.protocols.tubemq.client.assigned_partitions import AssignedPartitions, LastPositions, not_ours
from penstock.protocols.tubemq.client.batches import PulledBatch
from penstock.protocols.tubemq.client.cluster import Registration, RegistrationEvent, RegistrationState, Shared
from penstock.protocols.tubemq.client.pulling import Pacing, Pulling
from penstock.protocols.tubemq.errors import Code
from penstock.protocols.tubemq.wire.messages import CloseRequestC2M
from penstock.protocols.tubemq.wire.rpc import CONSUMER_CLOSE
from penstock.protocols.tubemq.wire.strings import check_group

__all__ = ["Balancing", "GroupMember", "MemberRegistration"]


# MemberRegistration: a member of a group under one id, from registering to leaving: what it holds, pulls and announced.
#
# A member that leaves and joins again gets a new one.
class MemberRegistration:
    """``announced``: the partitions that the engine knows of; ``gained`` and ``revoked``: those of its next `Beat`.

    ``report``: the master has not heard yet what is held. ``refusal``: why the master will not have this member any
    more. ``master_at``: when the master is to hear of it next (the channel's clock).
    """

    def __init__(
        self, shared: Shared, group: str, period_s: float, last_positions: LastPositions | None = None
    ) -> None:
        owner = whose(shared.options.client_id, group)
        self.shared = shared
        self.group = group
        self.period_s = period_s
        self.log = ClientLog("penstock.group", owner)
        self.id = shared.options.tube.consumer_id or shared.identity.consumer_id(group)
        self.pacing = Pacing(shared.channel, shared.options, ClientLog("penstock.consumer", owner))
        self.holdings = AssignedPartitions(shared, group, self.id, last_positions)
        self.pulling = Pulling(shared, self.holdings, self.pacing)
        self.registration = Registration()
        self.topics: Sequence[str] = ()
        self.announced: set[Partition] = set()
        self.gained: set[Partition] = set()
        self.revoked: set[Partition] = set()
        self.refusal = ""
        self.report = False
        self.master_at = 0.0

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """See that a partition that is ours stands ``at`` what is said; returns where the next batch begins.

        Raises ServerError (411) for what is not ours.
        """
        holding = self.holdings.get(partition)
        if holding is None:
            raise not_ours(partition)
        if at is None and holding.held:
            return holding.offset
        return await self.holdings.register(holding, at)

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Others may have them."""
        self.announced -= set(partitions)
        await self.take_away(partitions)

    async def take_away(self, partitions: Collection[Partition]) -> None:
        """Others may have them, whether or not the engine is through with them."""
        if_out = not self.shared.options.tube.rollback_if_confirm_timeout
        await self.holdings.give_back(partitions, if_out=if_out)

    def news(self) -> Beat:
        """What has changed since the last beat, for the engine."""
        if self.refusal:
            return Beat(Verdict.LOST, reason=self.refusal)
        lost = frozenset(self.holdings.lost & self.announced)
        if self.holdings.lost:
            self.report = True
        self.holdings.lost.clear()
        assigned = frozenset(self.gained)
        self.announced = (self.announced | assigned) - lost
        revoked = frozenset(self.revoked)
        self.gained, self.revoked = set(), set()
        return Beat(Verdict.STEADY, revoked, assigned, lost=lost)


# GroupMember: a consumer in a group under either kind of balancing: an id, partitions, pulling, and periodic beats.
#
# A heartbeat is one look at what is due; ``heartbeat_interval_s`` says when to look again.
_SHORTEST_S: Final = 0.01
_FORBIDDEN: Final = frozenset({Code.CONSUME_GROUP_FORBIDDEN, Code.CONSUME_CONTENT_FORBIDDEN})
_REFUSALS: Final = _FORBIDDEN | frozenset(
    range(Code.CLIENT_INCONSISTENT_CONSUMETYPE, Code.CLIENT_DUPLICATE_INDEXID + 1)
)
"""What a member hears that does not fit into its group (any more)."""


class Balancing(Protocol):
    """Who decides which partitions a member holds: what it says to the master, and what it does with the answers.

    Made for one membership, in which it writes what is gained and revoked. Errors are PenstockErrors.
    """

    async def register(self) -> None:
        """Ask the master once to take this member, or to take it back. Raises ServerError, ConnectionLost."""
        ...

    async def joined(self) -> None:
        """The master has taken this member for the first time: ask what has to be known now. Raises as ``register``."""
        ...

    async def beat_master(self) -> None:
        """One heartbeat; ``master_at`` is put off by a period if it is answered. Raises ServerError, ConnectionLost."""
        ...

    async def balance(self) -> None:
        """Take what this member is to have, and give back what it is not, as far as that is due now."""
        ...

    def pending_s(self) -> float:
        """Seconds until ``balance`` has something to do, 0 or more; a heartbeat's period if nothing waits."""
        ...

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """See that the partition is this member's, at ``at`` if that is said; returns where the next batch begins.

        Raises ServerError: another member has it, it is not there, or it is not given by asking.
        """
        ...


class GroupMember(BatchMembership):
    """``penstock.interfaces.BatchMembership``, whose ``balancing`` is made anew for each membership."""

    def __init__(
        self, shared: Shared, options: GroupOptions, balancing: Callable[[MemberRegistration], Balancing]
    ) -> None:
        self._shared = shared
        self._channel = shared.channel
        self._tube = shared.options.tube
        if options.instance_id is not None:
            raise ConfigError("group_instance_id is set, but TubeMQ has no static members", hint="Leave it out")
        options.need_classic("TubeMQ")
        self._group = check_group(options.group)
        self._period_s = (self._tube.heartbeat_period_ms or options.heartbeat_interval_ms) / 1_000
        self._generation = 0
        self._make_balancing = balancing
        self._last_positions: LastPositions = {}
        self._enrol()

    def _enrol(self) -> None:
        """A new member, under a new id."""
        self._membership = MemberRegistration(self._shared, self._group, self._period_s, self._last_positions)
        self._balancing = self._make_balancing(self._membership)
        self._log = self._membership.log
        self._holdings = self._membership.holdings
        self._pulling = self._membership.pulling
        self._registration = self._membership.registration
        self._failures = 0
        self._brokers_at = 0.0

    # Joining, and beats.

    async def join(self, topics: Collection[str], owned: Collection[Partition], reason: str) -> Assignment:
        """Register at the master; partitions come later, with heartbeats.

        Raises ServerError: 450 and 455 where the group may not consume, 424 to 429 where its members disagree, 430
        where this ``node_id`` stays taken; ConfigError for start offsets of what this member does not read.
        """
        del owned, reason
        if self._registration.state is RegistrationState.CLOSED:
            self._enrol()
        self._membership.topics = sorted(topics)
        await self._register_first()
        await self._balancing.joined()
        return Assignment(self._generation, frozenset(self._membership.announced))

    async def heartbeat(self) -> Beat:
        """Do what is due: tell master and brokers that we live, take and give back partitions."""
        await self._beat(self._channel.monotonic())
        await self._balancing.balance()
        return self._membership.news()

    # What engines ask.

    @property
    def member_id(self) -> str:
        """The client id that servers know."""
        return self._membership.id

    def must_revoke(self, owned: Collection[Partition]) -> frozenset[Partition]:
        """Nothing: partitions go one by one, when the master says so."""
        del owned
        return frozenset()

    async def stale(self, topics: Collection[str]) -> bool:
        """Never: new partitions come by themselves."""
        del topics
        return False

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Batches are confirmed, not offsets."""
        del offsets
        raise UsageError("TubeMQ's members confirm batches, not offsets")

    async def pull(self, partition: Partition, wait_s: float) -> PulledBatch | None:
        """The next batch; None if there is none within ``wait_s``."""
        return await self._pulling.pull(partition, wait_s)

    def position(self, partition: Partition) -> int | None:
        """Where the next batch begins; None for what is not ours."""
        holding = self._holdings.get(partition)
        return holding.offset if holding is not None and holding.held else None

    def end_offset(self, partition: Partition) -> int | None:
        """Where the partition ends, as its broker said last; None where it did not say."""
        holding = self._holdings.get(partition)
        return holding.max_offset if holding is not None and holding.max_offset >= 0 else None

    def rests(self, partition: Partition) -> bool:
        """Whether flow control or an error holds it back."""
        return self._pulling.rests(partition)

    def pause(self, partition: Partition, paused: bool) -> None:
        """Rest frozen, or not any more."""
        self._pulling.pause(partition, paused)

    def taken(self, partition: Partition, context: str) -> float:
        """The application has the batch."""
        return self._pulling.taken(partition, context)

    def is_out(self, partition: Partition, context: str) -> bool:
        """Whether the batch is still waited for."""
        return self._pulling.is_out(partition, context)

    def reached(self, partition: Partition, context: str, offset: int) -> None:
        """How far the application is through with a batch."""
        self._pulling.reached(partition, context, offset)

    async def confirm(self, partition: Partition, context: str, *, consumed: bool) -> int:
        """Say what became of a batch; returns where the next one begins."""
        return await self._pulling.confirm(partition, context, consumed=consumed)

    async def give_back(self, partitions: Collection[Partition]) -> None:
        """Others may have them."""
        await self._membership.give_back(partitions)

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """See that the partition is ours, at ``at`` if that is said; returns where the next batch begins."""
        return await self._balancing.book(partition, at)

    async def leave(self, reason: str) -> None:
        """Give everything back and tell the master. Raises ConnectionLost, ServerError where it did not hear it."""
        del reason
        await self._holdings.give_back_all()
        self._membership.announced.clear()
        if self._registration.state in (RegistrationState.CREATED, RegistrationState.CLOSED):
            return
        self._registration.see(RegistrationEvent.CLOSE)
        auth = self._shared.identity.master_certificate()
        request = CloseRequestC2M(client_id=self._membership.id, group_name=self._group, auth_info=auth)
        await self._shared.masters.call(CONSUMER_CLOSE, request)

    # Beats.

    @property
    def heartbeat_interval_s(self) -> float:
        """Until the next thing is due."""
        if not self._registration.registered:
            return self._period_s
        now = self._channel.monotonic()
        due = [self._membership.master_at - now, self._brokers_at - now, self._balancing.pending_s()]
        if (asked := self._holdings.due_s(now)) is not None:
            due.append(asked)
        return max(_SHORTEST_S, min(due))

    async def _beat(self, now: float) -> None:
        """Tell master and brokers that we live, as far as it is time."""
        work = []
        if now >= self._membership.master_at:
            work.append(self._beat_master())
        if now >= self._brokers_at:
            work.append(self._beat_brokers())
        for outcome in await self._channel.gather(work):
            if isinstance(outcome, BaseException):
                raise outcome

    async def _beat_brokers(self) -> None:
        self._brokers_at = self._channel.monotonic() + self._period_s
        await self._holdings.beat()

    async def _beat_master(self) -> None:
        """One heartbeat; one that fails is logged and tried again at the next one's time."""
        try:
            if not self._registration.registered and not await self._is_taken_back():
                return
            await self._balancing.beat_master()
        except PenstockError as error:
            self._failures += 1
            if isinstance(error, ServerError) and error.code == Code.HB_NO_NODE:
                self._registration.see(RegistrationEvent.UNKNOWN)
                self._membership.report = True
                # At once the first time: the master has a minute's memory less than the brokers' patience.
                self._membership.master_at = self._channel.monotonic() + (
                    0.0 if self._failures == 1 else self._period_s
                )
                self._log.info("the master does not know this member any more, which registers again: %s", error)
                return
            wait_s = self._period_s
            if self._failures > self._tube.heartbeat_retries:
                wait_s = max(wait_s, self._tube.heartbeat_after_fail_ms / 1_000)
            self._membership.master_at = self._channel.monotonic() + wait_s
            self._log.warning("no heartbeat reached a master: %s", error)
        else:
            self._failures = 0

    async def _is_taken_back(self) -> bool:
        """Register anew; False if the master will not have this member any more, which then holds nothing."""
        try:
            await self._register_again()
        except ServerError as error:
            if error.code not in _REFUSALS:
                raise
            self._log.warning("the master does not take this member back, which gives up all it has: %s", error)
            self._membership.refusal = str(error)
            self._registration.see(RegistrationEvent.CLOSE)
            await self._holdings.give_back_all()
            return False
        return True

    async def _register_again(self) -> None:
        self._registration.see(RegistrationEvent.REGISTER)
        try:
            await self._balancing.register()
        except PenstockError:
            self._registration.see(RegistrationEvent.FAILED)
            raise
        self._registration.see(RegistrationEvent.ACCEPTED)

    async def _register_first(self) -> None:
        """Tried ``register_retries`` times, but once for groups that may not consume or options that cannot be meant.

        While another member has this one's ``node_id``, as one that was killed has for half a minute, it is tried for
        as long as a call may take (``api_timeout_ms``). Raises the last error.
        """
        id_is_free = Retry(self._channel, self._shared.options)
        backoff_s = self._tube.register_backoff_ms / 1_000
        failures = 0
        while True:
            try:
                await self._register_again()
            except PenstockError as error:
                if isinstance(error, ServerError) and error.code == Code.CLIENT_DUPLICATE_INDEXID:
                    if not id_is_free.attempts:
                        self._log.warning("%s. It is tried again until then, at the longest for api_timeout_ms", error)
                    await id_is_free.pause(error, seconds=max(backoff_s, _SHORTEST_S))
                    continue
                failures += 1
                final = isinstance(error, LocalError) or (isinstance(error, ServerError) and error.code in _FORBIDDEN)
                if final or failures == self._tube.register_retries:
                    raise
                await self._channel.sleep(backoff_s)
            else:
                break
        self._generation += 1
        self._membership.master_at = self._channel.monotonic()
        self._brokers_at = self._membership.master_at + self._period_s
