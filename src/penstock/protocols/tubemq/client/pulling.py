"""Reading the partitions that one consumer holds, a batch at a time, confirming them, and pausing between reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from penstock.config.client import ClientLog, whose
from penstock.errors import PenstockError, ProtocolViolation, ServerError
from penstock.interfaces.channel import Channel, Retry
from penstock.model import Partition
from penstock.protocols.tubemq.client.assigned_partitions import AssignedPartitions, Event, Holding, State
from penstock.protocols.tubemq.client.batches import PulledBatch
from penstock.protocols.tubemq.client.cluster import Shared
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.errors import Code, error_of
from penstock.protocols.tubemq.flow_control import FlowControl, Pace, Polled, timer_of
from penstock.protocols.tubemq.wire.messages import (
    GetMessageResponseB2C,
    HeartResponseM2C,
    OpsTaskInfo,
    RegisterResponseM2C,
)
from penstock.protocols.tubemq.wire.protobuf import has
from penstock.protocols.tubemq.wire.strings import INDEX_BYTES, aligned, format_key

if TYPE_CHECKING:
    from penstock.protocols.tubemq.wire.records import MessageSet

__all__ = ["Pacing", "Pulling"]

# Pacing: how long each partition of one consumer is left alone after an answer, and the rules that say so.
#
# The rules come with answers of the master, to members of both kinds in different messages. Source: Apache InLong
# TubeMQ 2.x, ``PartitionExt``, ``RmtDataCache`` and ``FlowCtrlRuleHandler`` of the Java client.
_AFTER_ERROR_MS: Final = {Code.FORBIDDEN: 2_000, Code.SERVICE_UNAVAILABLE: 300, Code.MOVED: 200}
_AFTER_OTHERS_MS: Final = 300
_SHORTEST_MS: Final = 10


class Pacing:
    """Of one consumer. ``control`` holds the rules, with the ids that masters are to get."""

    def __init__(self, channel: Channel[Any], options: TubeOptions, log: ClientLog) -> None:
        self._log = log
        self._channel = channel
        self._not_found_ms = options.tube.not_found_wait_ms
        self._own_priority = options.tube.query_priority
        self._paces: dict[Partition, Pace] = {}
        self._answered_ms: dict[Partition, tuple[int, Polled]] = {}
        self.control = FlowControl()

    # Rules.

    @property
    def priority_for_brokers(self) -> int:
        """Which records may be read from memory: what the application said, else what the master says of the group."""
        return self._own_priority or max(self.control.priority, 0)

    def note_rules(self, said: RegisterResponseM2C | HeartResponseM2C | OpsTaskInfo) -> None:
        """Take over what a master's answer says; what cannot be understood leaves the rules as they were.

        The priority has no version of its own, and may change (and be taken back, -2) while the rules stay.
        """
        group, shared = said.group_flow_control_info, said.def_flow_control_info
        if has(said, "qry_priority_id"):
            self.control.priority = said.qry_priority_id
        if has(said, "group_flow_check_id"):
            self._take(lambda: self.control.update_group(said.group_flow_check_id, group))
        if has(said, "def_flow_check_id"):
            self._take(lambda: self.control.update_shared(said.def_flow_check_id, shared))

    def _take(self, update: Callable[[], bool]) -> None:
        try:
            update()
        except ProtocolViolation as error:
            self._log.warning("the master's %s", error)

    def escapes(self) -> bool:
        """Whether the broker's own limit does not count, because the group has one that applies now."""
        return self.control.escapes(self._now_ms(), self._channel.now_ms())

    # Partitions.

    def note_batch(self, partition: Partition, answer: GetMessageResponseB2C, size: int, *, filtered: bool) -> None:
        """A batch came: ``size`` bytes, all of its answer, which is a little more than its messages' bodies."""
        self._paces.setdefault(partition, Pace(self.control, filtered=filtered))
        polled = Polled(
            Code.SUCCESS, size, 0, answer.curr_data_dlt if has(answer, "curr_data_dlt") else -1,
            answer.require_slow, answer.esc_flow_ctrl,
        )  # fmt: skip
        self._answered_ms[partition] = (self._now_ms(), polled)

    def after_batch(self, partition: Partition) -> float:
        """The batch noted last is done with: seconds until the next one may be asked for."""
        pace, answered = self._paces.get(partition), self._answered_ms.pop(partition, None)
        if pace is None or answered is None:
            return 0.0
        now = self._now_ms()
        at, polled = answered
        return timer_of(pace.rest_ms(polled, now, self._channel.now_ms()), now - at) / 1_000

    def after_failure(self, partition: Partition, answer: GetMessageResponseB2C, *, filtered: bool) -> float:
        """No batch came: seconds until it is tried again."""
        pace = self._paces.setdefault(partition, Pace(self.control, filtered=filtered))
        lag = answer.curr_data_dlt if has(answer, "curr_data_dlt") else -1
        polled = Polled(answer.err_code, 0, self._recommended_ms(answer), lag)
        # A limit of no bytes comes with a pause of no time; asking without end would not help.
        return max(pace.rest_ms(polled, self._now_ms(), self._channel.now_ms()), _SHORTEST_MS) / 1_000

    def _now_ms(self) -> int:
        return int(self._channel.monotonic() * 1_000)

    def _recommended_ms(self, answer: GetMessageResponseB2C) -> int:
        if answer.err_code == Code.NOT_FOUND:
            return self._not_found_ms
        if answer.err_code == Code.SERVER_CONSUME_SPEED_LIMIT:
            return max(0, answer.min_limit_time) if has(answer, "min_limit_time") else self._not_found_ms
        return _AFTER_ERROR_MS.get(answer.err_code, _AFTER_OTHERS_MS)


# Pulling: reading the partitions that one consumer holds, a batch at a time, and confirming them.
#
# The broker takes every request for a batch as its opinion of the one before: consumed, or to be sent again. So there
# is one request at a time for a partition, and none while its batch is out. Source: Apache InLong TubeMQ 2.x,
# ``BaseMessageConsumer`` of the Java client.
_NOT_OURS: Final = frozenset({Code.HB_NO_NODE, Code.DUPLICATE_PARTITION, Code.CERTIFICATE_FAILURE})
_SHORTEST_S: Final = 0.001
_POSITIONS_S: Final = 5.0
"""How old the position of a partition may get that has nothing for us."""

_EXPECTED: Final = frozenset({Code.NOT_FOUND, Code.SERVER_CONSUME_SPEED_LIMIT})


class Pulling:
    """Over the holdings of one consumer."""

    def __init__(self, shared: Shared, holdings: AssignedPartitions, pacing: Pacing) -> None:
        self._shared = shared
        self._channel = shared.channel
        self._tube = shared.options.tube
        self._zone = shared.options.zone
        self._log = ClientLog("penstock.consumer", whose(shared.options.client_id, holdings.group))
        self._holdings = holdings
        self._pacing = pacing
        self._token = 0

    async def pull(self, partition: Partition, wait_s: float) -> PulledBatch | None:
        """The next batch; None if there is none within ``wait_s``. Raises ServerError, ConnectionLost."""
        deadline = self._channel.monotonic() + wait_s
        while True:
            now = self._channel.monotonic()
            holding = self._holdings.get(partition)
            state = State.GONE if holding is None else holding.booked.tick(now)
            if holding is not None and state is State.IDLE:
                pulled = await self._read(holding)
                if pulled is not None:
                    return pulled
            elif now >= deadline:
                return None
            else:
                waiting = holding is not None and state is State.WAITING
                until = min(deadline, holding.booked.until) if holding is not None and waiting else deadline
                await self._channel.sleep(max(until - now, _SHORTEST_S))

    def rests(self, partition: Partition) -> bool:
        """Whether it is left alone, and its time has not come; not, if that is only because it had nothing just now."""
        holding = self._holdings.get(partition)
        if holding is None or holding.had_nothing:
            return False
        return holding.booked.state is State.WAITING and self._channel.monotonic() < holding.booked.until

    def pause(self, partition: Partition, paused: bool) -> None:
        """Nothing of it from now on, or again."""
        holding = self._holdings.get(partition)
        if holding is not None:
            holding.booked.see(Event.FREEZE if paused else Event.THAW, self._channel.monotonic())

    def taken(self, partition: Partition, context: str) -> float:
        """The application has the batch: its time to confirm begins."""
        seconds = self._tube.confirm_timeout_ms / 1_000
        holding = self._holdings.get(partition)
        if holding is not None and self._is_current(holding, context):
            holding.booked.confirm_by = self._channel.monotonic() + seconds
        return seconds

    def is_out(self, partition: Partition, context: str) -> bool:
        """Whether it is still waited for."""
        holding = self._holdings.get(partition)
        if holding is None:
            return False
        was_out = self._is_current(holding, context)
        holding.booked.tick(self._channel.monotonic())
        if was_out and not self._is_current(holding, context):
            self._log.warning(
                "%s: a batch was not confirmed within confirm_timeout_ms=%d, and will be read again."
                " Confirm sooner, take fewer records a poll, or raise the limit",
                partition,
                self._tube.confirm_timeout_ms,
            )
            return False
        return was_out

    def reached(self, partition: Partition, context: str, offset: int) -> None:
        """The application is through with the batch up to ``offset``, which is kept for the case that it must go."""
        holding = self._holdings.get(partition)
        if holding is not None and self._is_current(holding, context):
            holding.reached = (holding.booked.token, aligned(offset + INDEX_BYTES - 1))

    async def confirm(self, partition: Partition, context: str, *, consumed: bool) -> int:
        """Say what became of a batch; returns where the next one begins, as far as it is known.

        Raises ServerError (401) for a batch that is not ours to confirm any more, ConnectionLost, RequestTimeout.
        """
        holding = self._holdings.get(partition)
        if holding is None or not self._is_current(holding, context):
            raise _too_late(partition)
        booked, token = holding.booked, holding.booked.token
        booked.see(Event.CONFIRM, self._channel.monotonic())
        try:
            if not self._tube.confirm_locally:
                await self._commit(holding, token, consumed=consumed)
        except PenstockError as error:
            if booked.token == token:
                self._not_confirmed(holding, error)
            raise
        if booked.token != token:
            raise _too_late(partition)
        now = self._channel.monotonic()
        wait_s = self._pacing.after_batch(holding.partition)
        booked.see(Event.CONFIRMED, now, wait_s=wait_s, consumed=consumed)
        if self._tube.confirm_locally and consumed:
            holding.offset = max(holding.offset, holding.batch_end)  # the broker tells more with the next batch
        await self._holdings.settle(holding)
        return holding.offset

    # Inside.

    async def _commit(self, holding: Holding, token: int, *, consumed: bool) -> None:
        retry = Retry(self._channel, self._shared.options)
        while True:
            try:
                booking = self._holdings.booking(holding)
                position = await self._shared.brokers.commit(holding.node.endpoint, booking, consumed=consumed)
            except PenstockError as error:
                if holding.booked.token == token:
                    await retry.after(error)
                # Not asked again for a batch that went meanwhile: brokers would take it for the one that is out now.
                if holding.booked.token != token:
                    raise _too_late(holding.partition) from error
            else:
                if holding.booked.token == token:
                    holding.offset, holding.max_offset = position.offset, position.max_offset
                return

    def _not_confirmed(self, holding: Holding, error: PenstockError) -> None:
        now = self._channel.monotonic()
        if isinstance(error, ServerError) and error.code == Code.UNAUTHORIZED:
            self._holdings.note_lost(holding, Code.HB_NO_NODE)
        else:
            holding.booked.see(Event.UNCONFIRMED, now)

    async def _read(self, holding: Holding) -> PulledBatch | None:
        """One request; None if no batch came, for reasons that pass."""
        booked, begun = holding.booked, self._channel.monotonic()
        self._token = token = max(self._token + 1, self._channel.now_ms())
        consumed, booked.consumed = booked.consumed, False
        booked.see(Event.SELECT, begun, token=token)
        try:
            found = await self._ask(holding, consumed=consumed)
        except BaseException:
            # Cancelled, too: the batch may come, and will be sent again.
            if booked.token == token:
                booked.see(Event.FAILED, self._channel.monotonic())
            raise
        if booked.token != token:
            return None  # given up, lost or moved while the answer was on its way
        if found.answer.err_code == Code.SUCCESS:
            return await self._delivered(holding, found)
        await self._failed(holding, found)
        return None

    async def _ask(self, holding: Holding, *, consumed: bool) -> MessageSet:
        from penstock.protocols.tubemq.wire.records import read_messages

        booking = self._holdings.booking(holding)
        escape = self._pacing.escapes()
        payload = await self._shared.brokers.get(holding.node.endpoint, booking, consumed=consumed, escape=escape)
        return read_messages(payload)

    async def _delivered(self, holding: Holding, found: MessageSet) -> PulledBatch | None:
        booked, now = holding.booked, self._channel.monotonic()
        answer = found.answer
        holding.offset, holding.max_offset, holding.had_nothing = answer.curr_offset, answer.max_offset, False
        holding.batch_end = answer.curr_offset + INDEX_BYTES * found.count
        filters = self._holdings.filters_of(holding.partition.topic)
        self._pacing.note_batch(holding.partition, answer, found.size, filtered=bool(filters))
        if booked.see(Event.DELIVERED, now) is State.LEAVING:
            await self._holdings.settle(holding)
            return None
        if not found.count:
            # Nothing in it was for us; the broker has moved on by itself.
            booked.see(Event.CONFIRM, now)
            booked.see(Event.CONFIRMED, now, wait_s=self._pacing.after_batch(holding.partition), consumed=True)
            return None
        context = self._context(holding)
        zone = self._zone
        return PulledBatch(holding.partition, answer.curr_offset, answer.max_offset, context, found, filters, zone)

    async def _failed(self, holding: Holding, found: MessageSet) -> None:
        """An answer without a batch: drop the partition, or leave it alone for a while. Raises what is not expected."""
        answer, now = found.answer, self._channel.monotonic()
        if answer.err_code in _NOT_OURS:
            self._holdings.note_lost(holding, answer.err_code)
            return
        holding.had_nothing = answer.err_code == Code.NOT_FOUND
        filtered = bool(self._holdings.filters_of(holding.partition.topic))
        wait_s = self._pacing.after_failure(holding.partition, answer, filtered=filtered)
        holding.booked.see(Event.FAILED, now, wait_s=wait_s)
        await self._holdings.settle(holding)
        if answer.err_code == Code.NOT_FOUND:
            await self._ask_position(holding)
        if answer.err_code not in _EXPECTED:
            raise self._holdings.error(holding, answer.err_code, answer.err_msg)

    async def _ask_position(self, holding: Holding) -> None:
        """Over records of other partitions the broker goes on without a word; taking back nothing makes it tell."""
        now, before = self._channel.monotonic(), holding.offset
        if not holding.held or (before >= holding.max_offset and now < holding.asked_at + _POSITIONS_S):
            return
        holding.asked_at = now
        try:
            booking = self._holdings.booking(holding)
            position = await self._shared.brokers.commit(holding.node.endpoint, booking, consumed=False)
        except PenstockError as error:
            self._log.debug("the position of %s is not known: %s", holding.partition, error)
            return
        if self._holdings.get(holding.partition) is holding and holding.offset == before:  # else it was moved meanwhile
            holding.offset, holding.max_offset = position.offset, position.max_offset

    @staticmethod
    def _context(holding: Holding) -> str:
        return f"{format_key(holding.partition)}:{holding.booked.token}"

    def _is_current(self, holding: Holding, context: str) -> bool:
        return holding.booked.token != 0 and context == self._context(holding)


def _too_late(partition: Partition) -> ServerError:
    error = error_of(
        Code.UNAUTHORIZED,
        "this batch is not this consumer's to confirm any more",
        topic=partition.topic,
        partition=partition.id,
        node=partition.node,
    )
    error.hint = "Its records will be read again, by the member that has the partition then"
    return error
