"""GroupMember: what a consumer in a group is, whoever balances: an id, holdings, pulling, and beats at their times.

A heartbeat is one look at what is due; ``heartbeat_interval_s`` says when to look again. What must not live here: what
is said to the master (`server_balanced`, `client_balanced`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from penstock.config.logs import ClientLog, whose
from penstock.errors import ConfigError, PenstockError, ServerError, UsageError
from penstock.model import Committed, Offset, Partition
from penstock.protocols.tubemq.client.holdings import Holdings
from penstock.protocols.tubemq.client.pacing import Pacing
from penstock.protocols.tubemq.client.pulled import PulledBatch
from penstock.protocols.tubemq.client.pulling import Pulling
from penstock.protocols.tubemq.client.registration import Registration, RegistrationEvent, RegistrationState
from penstock.protocols.tubemq.client.shared import Shared
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.messages import CloseRequestC2M
from penstock.protocols.tubemq.methods import CONSUMER_CLOSE
from penstock.protocols.tubemq.names import check_group
from penstock.seams.client import Beat, GroupOptions, Verdict

__all__ = ["GroupMember"]

_SHORTEST_S: Final = 0.01
_FORBIDDEN: Final = frozenset({Code.CONSUME_GROUP_FORBIDDEN, Code.CONSUME_CONTENT_FORBIDDEN})
_REFUSALS: Final = _FORBIDDEN | frozenset(
    range(Code.CLIENT_INCONSISTENT_CONSUMETYPE, Code.CLIENT_DUPLICATE_INDEXID + 1)
)
"""What a member hears that does not fit into its group (any more)."""


class GroupMember:
    """``penstock.seams.BatchMembership`` but for joining, heartbeats and leaving."""

    def __init__(self, shared: Shared, options: GroupOptions) -> None:
        self._shared = shared
        self._channel = shared.channel
        self._tube = shared.options.tube
        if options.instance_id is not None:
            raise ConfigError("group_instance_id is set, but TubeMQ has no static members", hint="Leave it out")
        self._group = check_group(options.group)
        self._whose = whose(shared.options.client_id, self._group)
        self._log = ClientLog("penstock.group", self._whose)
        self._period_s = (self._tube.heartbeat_period_ms or options.heartbeat_interval_ms) / 1_000
        self._generation = 0
        self._topics: Sequence[str] = ()
        self._start()

    def _start(self) -> None:
        """A new member, under a new id."""
        self._id = self._shared.identity.consumer_id(self._group)
        self._pacing = Pacing(self._channel, self._shared.options, ClientLog("penstock.consumer", self._whose))
        self._holdings = Holdings(self._shared, self._group, self._id)
        self._pulling = Pulling(self._shared, self._holdings, self._pacing)
        self._registration = Registration()
        self._told: set[Partition] = set()
        self._gained: set[Partition] = set()
        self._revoked: set[Partition] = set()
        self.refusal = ""
        self._failures = 0
        self._beats = 0
        self._report = False
        self._master_at = self._brokers_at = 0.0

    # What engines ask.

    @property
    def member_id(self) -> str:
        """The client id that servers know."""
        return self._id

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
        self._told -= set(partitions)
        await self._holdings.give_back(partitions, if_out=not self._tube.rollback_if_confirm_timeout)

    async def book(self, partition: Partition, at: int | Offset | None) -> int:
        """See that the partition is ours, at ``at`` if that is said; returns where the next batch begins."""
        holding = self._holdings.get(partition)
        if holding is None:
            raise _not_ours(partition)
        if at is None and holding.held:
            return holding.offset
        return await self._holdings.register(holding, at)

    async def leave(self, reason: str) -> None:
        """Give everything back and tell the master. Raises ConnectionLost, ServerError where it did not hear it."""
        del reason
        await self._holdings.give_back_all()
        self._told.clear()
        if self._registration.state in (RegistrationState.CREATED, RegistrationState.CLOSED):
            return
        self._registration.see(RegistrationEvent.CLOSE)
        auth = self._shared.identity.master_certificate()
        request = CloseRequestC2M(client_id=self._id, group_name=self._group, auth_info=auth)
        await self._shared.masters.call(CONSUMER_CLOSE, request)

    # Beats.

    @property
    def heartbeat_interval_s(self) -> float:
        """Until the next thing is due."""
        if not self._registration.registered:
            return self._period_s
        now = self._channel.monotonic()
        due = [self._master_at - now, self._brokers_at - now, self._pending_s()]
        if (asked := self._holdings.due_s(now)) is not None:
            due.append(asked)
        return max(_SHORTEST_S, min(due))

    def _pending_s(self) -> float:
        """Seconds until something else is due."""
        return self._period_s

    async def _beat(self, now: float) -> None:
        """Tell master and brokers that we live, as far as it is time."""
        work = []
        if now >= self._master_at:
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
        """One heartbeat; one that fails is told in the log and tried again at its time."""
        try:
            if not self._registration.registered and not await self._is_taken_back():
                return
            await self._ask_master()
        except PenstockError as error:
            self._failures += 1
            if isinstance(error, ServerError) and error.code == Code.HB_NO_NODE:
                self._registration.see(RegistrationEvent.UNKNOWN)
                self._report = True
                # At once the first time: the master has a minute's memory less than the brokers' patience.
                self._master_at = self._channel.monotonic() + (0.0 if self._failures == 1 else self._period_s)
                self._log.info("the master does not know this member any more, which registers again: %s", error)
                return
            wait_s = self._period_s
            if self._failures > self._tube.heartbeat_retries:
                wait_s = max(wait_s, self._tube.heartbeat_after_fail_ms / 1_000)
            self._master_at = self._channel.monotonic() + wait_s
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
            self.refusal = str(error)
            self._registration.see(RegistrationEvent.CLOSE)
            await self._holdings.give_back_all()
            return False
        return True

    async def _register_again(self) -> None:
        self._registration.see(RegistrationEvent.REGISTER)
        try:
            await self._ask_to_register()
        except PenstockError:
            self._registration.see(RegistrationEvent.FAILED)
            raise
        self._registration.see(RegistrationEvent.ACCEPTED)

    async def _register_for(self, topics: Collection[str]) -> None:
        if self._registration.state is RegistrationState.CLOSED:
            self._start()
        self._topics = sorted(topics)
        await self._register_first()

    async def _register_first(self) -> None:
        """Tried ``register_retries`` times, but once for groups that may not consume. Raises the last error."""
        for attempt in range(1, self._tube.register_retries + 1):
            try:
                await self._register_again()
            except PenstockError as error:
                forbidden = isinstance(error, ServerError) and error.code in _FORBIDDEN
                if forbidden or attempt == self._tube.register_retries:
                    raise
                await self._channel.sleep(self._tube.register_backoff_ms / 1_000)
            else:
                break
        self._generation += 1
        self._master_at = self._channel.monotonic()
        self._brokers_at = self._master_at + self._period_s

    async def _ask_to_register(self) -> None:
        raise NotImplementedError

    async def _ask_master(self) -> None:
        raise NotImplementedError

    def _reports(self) -> bool:
        """Whether this heartbeat says what is held: if something changed, and every few times."""
        self._beats += 1
        report, self._report = self._report or self._beats % self._tube.report_interval_beats == 0, False
        return report

    def _news(self) -> Beat:
        """What has changed since the last beat, for the engine."""
        if self.refusal:
            return Beat(Verdict.LOST, reason=self.refusal)
        lost = frozenset(self._holdings.lost & self._told)
        if self._holdings.lost:
            self._report = True
        self._holdings.lost.clear()
        assigned = frozenset(self._gained)
        self._told = (self._told | assigned) - lost
        revoked = frozenset(self._revoked)
        self._gained, self._revoked = set(), set()
        return Beat(Verdict.STEADY, revoked, assigned, lost=lost)


def _not_ours(partition: Partition) -> ServerError:
    from penstock.protocols.tubemq.error_codes import error_of

    error = error_of(
        Code.HB_NO_NODE,
        "the partition is not this consumer's",
        topic=partition.topic,
        partition=partition.id,
        node=partition.node,
    )
    error.retriable = True  # the engine hears of it with the next heartbeat
    return error
