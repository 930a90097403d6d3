"""Requests of this client: framed, sent and their answers read; to the masters in turn, and to brokers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Generic, TypeVar

from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import ConfigError, ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout
from penstock.interfaces.channel import Channel, Link, Pending
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.tubemq.client.options import Identity, TubeOptions
from penstock.protocols.tubemq.errors import Code, error_of
from penstock.protocols.tubemq.wire.messages import (
    CommitOffsetRequestC2B,
    CommitOffsetResponseB2C,
    GetMessageRequestC2B,
    GetMessageResponseB2C,
    HeartBeatRequestC2B,
    RegisterRequestC2B,
    RegisterResponseB2C,
)
from penstock.protocols.tubemq.wire.protobuf import Message
from penstock.protocols.tubemq.wire.rpc import (
    COMMIT_OFFSET,
    GET_MESSAGE,
    PARTITION_HEARTBEAT,
    REGISTER_PARTITION,
    Method,
    ReadStatus,
    RegisterOperation,
    Service,
    Standby,
    Stopping,
    Unready,
    read_answer,
    read_payload,
    request,
)
from penstock.protocols.tubemq.wire.strings import Located, format_located, parse_failure

__all__ = ["Booking", "Brokers", "Calls", "Masters", "Position", "Started", "position_of"]

# Calls: every request of this client goes through here, to be framed, sent, and its answer read.
#
# The request says how long the server may take, a little less than this client waits. A server silently drops what it
# cannot answer in time.
Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)

_SLACK_S = 0.5


class Started(Generic[Request, Answer]):
    """A request that was written; its answer is fetched once, by ``answer`` or by ``payload``."""

    __slots__ = ("_link", "_method", "_pending")

    def __init__(self, link: Link[None], pending: Pending, method: Method[Request, Answer]) -> None:
        self._link = link
        self._pending = pending
        self._method = method

    async def answer(self) -> Answer:
        """Raises RequestTimeout, ConnectionLost, ProtocolViolation; RpcFailure and Standby when the call failed."""
        connection = self._link.connection
        frame = await self._pending.reply()
        try:
            return read_answer(self._method, frame, node=str(connection.endpoint))
        except ProtocolViolation:
            connection.close()  # what follows on it may mean nothing either
            raise

    async def payload(self) -> memoryview:
        """The answer's own message, not decoded. Raises as ``answer``."""
        connection = self._link.connection
        frame = await self._pending.reply()
        try:
            return read_payload(self._method, frame, node=str(connection.endpoint))
        except ProtocolViolation:
            connection.close()
            raise

    def abandon(self) -> None:
        """The answer is not wanted any more; closes the connection, because it may be long in coming."""
        self._link.connection.close()


class Calls:
    """All requests of one client. One connection an address and lane; see `TubeOptions.lane_of`."""

    def __init__(self, channel: Channel[None], options: TubeOptions) -> None:
        self.channel = channel
        self.options = options

    async def call(
        self,
        endpoint: Endpoint,
        method: Method[Request, Answer],
        message: Request,
        *,
        timeout_ms: int | None = None,
        service: Service | None = None,
        within_s: float | None = None,
        lane: str = "",
    ) -> Answer:
        """Ask, and read the answer. ``timeout_ms`` None is ``rpc_timeout_ms``; ``within_s`` is how long to wait for a
        connection, None: as long as that may take.

        Raises ConnectionLost, RequestTimeout, ProtocolViolation; RpcFailure and Standby when the call failed there.
        What the answer's own code says is the caller's business.
        """
        if within_s is not None:
            await self.channel.reach(endpoint, lane, within_s=within_s)
        started = await self.start(endpoint, method, message, timeout_ms=timeout_ms, service=service, lane=lane)
        return await started.answer()

    async def start(
        self,
        endpoint: Endpoint,
        method: Method[Request, Answer],
        message: Request,
        *,
        timeout_ms: int | None = None,
        service: Service | None = None,
        lane: str = "",
    ) -> Started[Request, Answer]:
        """Send without waiting for the answer. Requests of one lane are served in the order they were sent."""
        link = await self.channel.link(endpoint, lane)
        patience = self.options.rpc_timeout_ms if timeout_ms is None else timeout_ms
        outgoing = request(method, message, timeout_ms=patience, service=service)
        try:
            pending = link.connection.start(outgoing, timeout_s=patience / 1_000 + _SLACK_S)
        except PenstockError as error:
            error.node = error.node or str(endpoint)
            raise
        return Started(link, pending, method)


# Masters: the list of masters, the one that answers, and the way from it to the next.
#
# A call goes to the current master. When its connection fails, it does not answer in time, it speaks something else, or
# says that it is on standby, starting or stopping, the next one in the ring becomes the current one; no call asks any
# master twice. Other errors are the caller's. Source: Apache InLong TubeMQ 2.x, ``MasterService`` over
# ``BaseRpcServiceFactory`` (failover of the Java client).


_MOMENT_S = 1.0
"""How long a master may take to be connected to while there is another one to ask."""


class Masters:
    """All masters of a cluster; exactly one of them is active."""

    def __init__(self, calls: Calls, masters: Sequence[Endpoint]) -> None:
        if not masters:
            raise ConfigError("no master is named", hint="Write tubemq://HOST:PORT")
        self._calls = calls
        self._masters = tuple(dict.fromkeys(masters))
        self._current = 0

    @property
    def current(self) -> Endpoint:
        """Whom the next call goes to."""
        return self._masters[self._current]

    @property
    def all(self) -> Sequence[Endpoint]:
        """As they were named."""
        return self._masters

    async def ask(self, method: Method[Request, Answer], message: Request) -> Answer:
        """The active master's answer, whatever its code. Raises ConnectionLost, RequestTimeout, Standby, Unready
        or Stopping of the last master asked when none would answer; ProtocolViolation, RpcFailure."""
        begun = self._current
        for attempt in range(len(self._masters)):
            at = (begun + attempt) % len(self._masters)
            try:
                within_s = None if attempt == len(self._masters) - 1 else _MOMENT_S
                answer = await self._calls.call(self._masters[at], method, message, within_s=within_s)
            except (ConnectionLost, ProtocolViolation, RequestTimeout, Standby, Unready, Stopping):
                # Others may have moved on meanwhile; only who failed at the current one moves it.
                if self._current == at:
                    self._current = (at + 1) % len(self._masters)
                if attempt == len(self._masters) - 1:
                    raise
            else:
                self._current = at
                return answer
        raise AssertionError("there is at least one master")

    async def call(self, method: Method[Request, Answer], message: Request) -> Answer:
        """As `ask`, but raises ServerError for every code that is not success."""
        answer = await self.ask(method, message)
        code, text = answer.err_code, answer.err_msg  # type: ignore[attr-defined]
        if code != Code.SUCCESS:
            raise error_of(code, text, node=str(self.current))
        return answer


# Brokers: one coroutine for each thing a consumer asks of a broker, typed in our words.
#
# Codes other than success are ServerErrors with topic, partition and node, but for reading: what its codes mean depends
# on who reads. Source: Apache InLong TubeMQ 2.x, ``BrokerServiceServer``.
class Booking(Struct, frozen=True):
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


class Position(Struct, frozen=True):
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
