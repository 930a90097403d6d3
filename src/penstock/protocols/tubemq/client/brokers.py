"""Brokers: one coroutine for each thing a consumer asks of a broker, typed in our words.

Codes other than success are ServerErrors with topic, partition and node, but for reading: what its codes mean depends
on who reads. What must not live here: who holds which partition, retries.
Source: Apache InLong TubeMQ 2.x, ``BrokerServiceServer``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from penstock._dataclasses import dataclass
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.tubemq.client.calls import Calls, Started
from penstock.protocols.tubemq.client.identity import Identity
from penstock.protocols.tubemq.error_codes import Code, error_of
from penstock.protocols.tubemq.messages import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
    HeartBeatRequestC2B,
    RegisterRequestC2B,
    RegisterResponseB2C,
)
from penstock.protocols.tubemq.methods import (
    COMMIT_OFFSET,
    GET_MESSAGE,
    PARTITION_HEARTBEAT,
    REGISTER_PARTITION,
    ReadStatus,
    RegisterOperation,
)
from penstock.protocols.tubemq.strings import Located, format_located, parse_failure

__all__ = ["Booking", "Brokers", "Position", "position_of"]


@dataclass(frozen=True, slots=True)
class Booking:
    """Who reads what: at most one ``client_id`` of a group holds a partition at its broker.

    ``priority`` (three digits, 0: not said) is where records may be read from: files only, or memory too.
    """

    client_id: str
    group: str
    partition: Partition
    filters: tuple[str, ...] = ()
    priority: int = 0
    session_key: str = ""
    session_time_ms: int = 0

    def for_group(self, group: str, client_id: str) -> Booking:
        """The same for another group."""
        return replace(self, group=group, client_id=client_id)


@dataclass(frozen=True, slots=True)
class Position:
    """Where a group stands in a partition, and where the partition ends."""

    offset: int
    max_offset: int


class Brokers:
    """All calls of consumers. Raises ConnectionLost, RequestTimeout, ProtocolViolation, RpcFailure, ServerError.

    All that is asked about one partition goes over one connection, so that a broker works it off in its order.
    """

    def __init__(self, calls: Calls, identity: Identity) -> None:
        self._calls = calls
        self._identity = identity
        self._lane_of = calls.options.lane_of

    async def register(
        self,
        endpoint: Endpoint,
        booking: Booking,
        *,
        start: int | None = None,
        read_status: ReadStatus = ReadStatus.NORMAL,
    ) -> Position:
        """Take a partition for a group. ``start`` moves the group there, clamped to what there is."""
        request = self._register(booking, RegisterOperation.REGISTER, read_status, start)
        answer = await self._calls.call(endpoint, REGISTER_PARTITION, request, lane=self._lane_of(booking.partition))
        return position_of(answer, endpoint, booking, start)

    async def start_register(
        self,
        endpoint: Endpoint,
        booking: Booking,
        *,
        start: int | None = None,
        read_status: ReadStatus = ReadStatus.NORMAL,
    ) -> Started[RegisterRequestC2B, RegisterResponseB2C]:
        """As `register`, without waiting; its answer goes through `position_of`."""
        request = self._register(booking, RegisterOperation.REGISTER, read_status, start)
        return await self._calls.start(endpoint, REGISTER_PARTITION, request, lane=self._lane_of(booking.partition))

    async def unregister(self, endpoint: Endpoint, booking: Booking, *, consumed: bool) -> None:
        """Give a partition back; ``consumed`` counts the last batch as read, else it is taken back."""
        status = ReadStatus.NORMAL if consumed else ReadStatus.FROM_MAX_FIRST_TIME
        request = self._register(booking, RegisterOperation.UNREGISTER, status, None)
        answer = await self._calls.call(endpoint, REGISTER_PARTITION, request, lane=self._lane_of(booking.partition))
        position_of(answer, endpoint, booking)

    async def heartbeat(
        self, node: Node, client_id: str, group: str, partitions: Iterable[Partition], priority: int = 0
    ) -> Sequence[tuple[int, Partition]]:
        """Keep partitions held at one broker; returns (code, partition) of those that are not held any more."""
        located = [format_located(Located(node, partition)) for partition in partitions]
        request = HeartBeatRequestC2B(
            client_id=client_id,
            group_name=group,
            read_status=0,
            partition_info=located,
            qry_priority_id=priority or None,
            auth_info=self._identity.broker_authorization(),
        )
        answer = await self._calls.call(node.endpoint, PARTITION_HEARTBEAT, request)
        if answer.err_code != Code.SUCCESS:
            raise error_of(answer.err_code, answer.err_msg, node=str(node.endpoint))
        failures = (parse_failure(text) for text in answer.failure_info)
        return [(code, located.partition) for code, located in failures]

    async def start_get(
        self,
        endpoint: Endpoint,
        booking: Booking,
        *,
        consumed: bool = False,
        manual: bool = False,
        escape: bool = False,
    ) -> Started[GetMessageRequestC2B, GetMessageResponseB2C]:
        """Ask for the next batch. ``consumed``: the one before is done with. ``manual``: go on behind it all the same,
        and leave the group where it is. ``escape``: the broker's own speed limit does not count."""
        request = GetMessageRequestC2B(
            client_id=booking.client_id,
            partition_id=booking.partition.id,
            group_name=booking.group,
            topic_name=booking.partition.topic,
            last_pack_consumed=consumed,
            manual_commit_offset=manual,
            esc_flow_ctrl=escape,
        )
        return await self._calls.start(endpoint, GET_MESSAGE, request, lane=self._lane_of(booking.partition))

    async def get(
        self,
        endpoint: Endpoint,
        booking: Booking,
        *,
        consumed: bool = False,
        manual: bool = False,
        escape: bool = False,
    ) -> memoryview:
        """As `start_get`, and wait for the answer: a GetMessageResponseB2C that is not decoded, whatever its code."""
        started = await self.start_get(endpoint, booking, consumed=consumed, manual=manual, escape=escape)
        return await started.payload()

    async def start_commit(
        self, endpoint: Endpoint, booking: Booking, *, consumed: bool = True
    ) -> Started[CommitOffsetRequestC2B, CommitOffsetResponseB2C]:
        """Confirm the last batch (or take it back); its answer goes through `position_of`."""
        request = CommitOffsetRequestC2B(
            client_id=booking.client_id,
            topic_name=booking.partition.topic,
            partition_id=booking.partition.id,
            group_name=booking.group,
            last_pack_consumed=consumed,
        )
        return await self._calls.start(endpoint, COMMIT_OFFSET, request, lane=self._lane_of(booking.partition))

    async def commit(self, endpoint: Endpoint, booking: Booking, *, consumed: bool = True) -> Position:
        """Confirm the last batch, or take it back: where the group stands then."""
        started = await self.start_commit(endpoint, booking, consumed=consumed)
        return position_of(await started.answer(), endpoint, booking)

    def _register(
        self, booking: Booking, operation: RegisterOperation, status: ReadStatus, start: int | None
    ) -> RegisterRequestC2B:
        return RegisterRequestC2B(
            op_type=operation,
            client_id=booking.client_id,
            group_name=booking.group,
            topic_name=booking.partition.topic,
            partition_id=booking.partition.id,
            read_status=status,
            filter_cond_str=booking.filters,
            curr_offset=start,
            session_key=booking.session_key or None,
            session_time=booking.session_time_ms or None,
            qry_priority_id=booking.priority or None,
            auth_info=self._identity.broker_authorization(),
        )


def position_of(
    answer: RegisterResponseB2C | CommitOffsetResponseB2C,
    endpoint: Endpoint,
    booking: Booking,
    start: int | None = None,
) -> Position:
    """What an answer says. Raises ServerError for every code that is not success."""
    if answer.err_code != Code.SUCCESS:
        raise error_of(
            answer.err_code,
            answer.err_msg,
            topic=booking.partition.topic,
            partition=booking.partition.id,
            offset=start,
            node=str(endpoint),
        )
    return Position(answer.curr_offset, answer.max_offset)
