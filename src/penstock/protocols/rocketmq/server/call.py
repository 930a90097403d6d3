"""The context of a request: its connection, the front's shared parts, and the checks before any handler runs.

`Call` and `Reply` are a handler's argument and result, `ClientConnection` is one client's connection. `Flow` limits
rates, `Admission` checks signatures and rates. `is_snode_pull` and `is_of_5x` tell codes with two meanings apart.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec

from penstock.concurrency.background import BackgroundWorker, LoopBudget
from penstock.concurrency.limits import Shares
from penstock.concurrency.runtime import WaiterSet
from penstock.interfaces.enode import Enode
from penstock.interfaces.framing import Buffer, Buffers
from penstock.interfaces.front import Meter
from penstock.interfaces.node import Offsets, Services
from penstock.model import Endpoint
from penstock.protocols.rocketmq.config import OVERALL
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.server.cluster import Cluster, RocketFrontOptions, Snodes
from penstock.protocols.rocketmq.wire.framing import CommandFrame, RemotingCommand, RocketFraming
from penstock.protocols.rocketmq.wire.messages import read_body, write_body
from penstock.protocols.rocketmq.wire.rpc import ACCESS_KEY, UNSIGNED_KEY, is_signed

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.server.clients import Clients, Counts, QueueLocks
    from penstock.protocols.rocketmq.server.ledger import Ledger, Places, Positions, Settings
    from penstock.protocols.rocketmq.server.parked_messages import Delays, Transactions
    from penstock.protocols.rocketmq.server.read_requests import Reader
    from penstock.protocols.rocketmq.server.send_requests import Writing

__all__ = [
    "IDLE_S",
    "TOO_MANY",
    "TOO_MUCH",
    "Admission",
    "Bucket",
    "Call",
    "ClientConnection",
    "ClientSession",
    "Connected",
    "Flow",
    "Handler",
    "OfConnected",
    "Reply",
    "Shared",
    "admission_of",
    "is_of_5x",
    "is_snode_pull",
    "read_large",
    "written",
]

# Codes with two meanings: the branch of the first Snode used numbers that 5.x later gave to other requests. The fields
# decide.
#
# 351 is a pull if it has an offset, else it asks for a topic's settings. 353 to 355 are the Snode's unless they have a
# field that only 5.x's requests have (forbid a group a topic, how far a queue was rewritten, export settings). Source:
# the Snode of 2018 and 2019, and Apache RocketMQ 5.4, ``RequestCode``.
_SNODE_PULL: Final = 351
_OFFSET: Final = "queueOffset"
_ONLY_IN_5X: Final[Mapping[int, frozenset[str]]] = {
    353: frozenset({"group", "topic", "readable"}),
    354: frozenset({"topic", "checkStoreTime"}),
    355: frozenset({"configType"}),
}


def is_snode_pull(asked: RemotingCommand) -> bool:
    """Whether it is a pull of the first Snode's clients."""
    return asked.code == _SNODE_PULL and _OFFSET in asked.fields


def is_of_5x(asked: RemotingCommand) -> bool:
    """Whether a request with a Snode's code is 5.x's request of that code, which is not served."""
    only = _ONLY_IN_5X.get(asked.code)
    return only is not None and not only.isdisjoint(asked.fields)


# Flow control: limits of requests and of body bytes per second, by request code and over all.
#
# Each limit is a token bucket that holds one second's allowance and refills at that rate. A request that costs more
# than a whole bucket passes when the bucket is full, else it would never pass; later ones wait until the debt is paid.
# A refused request takes nothing out. The clock comes in as an argument.
#
# This follows the interceptors of the first Snode without their bugs: they never checked ``overall``, a body below 1 KB
# cost nothing, and one above the limit was refused for ever. Source: the Snode of 2019,
# ``QPSFlowControlServiceImpl``, ``RequestSizeFlowControlServiceImpl``, ``AbstractFlowControlService``.
TOO_MANY: Final = "[REJECT]exceed system flow control config QPS, start flow control for a while"
TOO_MUCH: Final = "[REJECT]exceed system flow control config request size, start flow control for a while"
"""The first Snode's texts, which operators search their logs for."""

_HEARTBEAT: Final = 34
_KILO: Final = 1_024


class Bucket:
    """A token bucket: ``rate`` is the allowance per second and the capacity. Times are seconds of a monotonic clock."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._left = rate
        self._at: float | None = None

    def has(self, cost: float, now: float) -> bool:
        """Whether the bucket has ``cost``, or is full."""
        if self._at is not None:
            self._left = min(self.rate, self._left + (now - self._at) * self.rate)
        self._at = now
        return self._left >= min(cost, self.rate)

    def take(self, cost: float) -> None:
        """Take ``cost`` out; call `has` first."""
        self._left -= cost


class Flow:
    """Limits per second; ``requests`` and ``kilobytes`` are by request code as text, or ``overall``."""

    def __init__(self, requests: Mapping[str, int], kilobytes: Mapping[str, int]) -> None:
        self._requests = {name: Bucket(limit) for name, limit in requests.items()}
        self._bytes = {name: Bucket(limit * _KILO) for name, limit in kilobytes.items()}

    def refuses(self, code: int, size: int, now: float) -> str | None:
        """The reason to refuse a request with a body of ``size`` bytes now; None accepts and counts it. Heartbeats are
        not counted as requests: a client that times out without them would only come back with more requests."""
        costs = [] if code == _HEARTBEAT else [(each, 1, TOO_MANY) for each in _of(self._requests, code)]
        if size:
            costs += [(each, size, TOO_MUCH) for each in _of(self._bytes, code)]
        for bucket, cost, words in costs:
            if not bucket.has(cost, now):
                return words
        for bucket, cost, _ in costs:
            bucket.take(cost)
        return None


def _of(buckets: Mapping[str, Bucket], code: int) -> list[Bucket]:
    if not buckets:
        return []
    return [buckets[name] for name in (str(code), OVERALL) if name in buckets]


# A request is checked before anything else: for its signature, if clients have accounts, and for the rate.
#
# A signature covers everything in the request, so it can be checked only here, before anything is changed. Forwarded
# requests are signed anew (``backend/relay``). Source: Apache RocketMQ 4.9, ``PlainPermissionManager``, which has these
# texts; the code is the Proxy's.
_log = logging.getLogger("penstock.node")

_QUERY_MESSAGE: Final = 12
_TELL_EVERY: Final = 100


class Admission:
    """The checks of one front. ``accounts``: access keys and their secrets; without any, requests need no signature."""

    def __init__(self, accounts: Mapping[str, str], flow: Flow) -> None:
        self._accounts = accounts
        self._flow = flow
        self._refused = 0

    def check(self, asked: RemotingCommand, now: float) -> None:
        """Raises Refused."""
        if self._accounts:
            self._signed(asked)
        words = self._flow.refuses(asked.code, len(asked.body), now)
        if words is not None:
            if self._refused % _TELL_EVERY == 0:
                _log.warning("request %d of a RocketMQ client is one too many: %s", asked.code, words)
            self._refused += 1
            raise Refused(Code.SYSTEM_BUSY, words)

    def _signed(self, asked: RemotingCommand) -> None:
        key = asked.fields.get(ACCESS_KEY)
        if not key:
            raise Refused(Code.NO_PERMISSION, "No accessKey is configured")
        secret = self._accounts.get(key)
        if secret is None:
            raise Refused(Code.NO_PERMISSION, f"No acl config for {key[:100]}")
        if is_signed(secret, asked.fields, asked.body):
            return
        # Clients differ in whether they sign this field.
        if asked.code == _QUERY_MESSAGE and is_signed(secret, asked.fields, asked.body, without=(UNSIGNED_KEY,)):
            return
        raise Refused(Code.NO_PERMISSION, f"Check signature failed for accessKey={key[:100]}")


def admission_of(options: RocketFrontOptions) -> Admission | None:
    """The checks that an operator configured; None if there are none."""
    if not (options.accounts or options.flow_requests or options.flow_kilobytes):
        return None
    return Admission(options.accounts, Flow(options.flow_requests, options.flow_kilobytes))


B = TypeVar("B")

IDLE_S: Final = 120.0
"""A connection without a request for this long is closed, as brokers do; clients send a heartbeat every 30 s."""

_QUICK_BYTES: Final = 32 << 10
_QUICK_ENTRIES: Final = 500
_DECODED: Final = 12
"""Bytes of Python objects per byte of JSON, roughly."""
_ENTRY_BYTES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Connected:
    """What handlers share whose answer depends only on connected clients, wherever the topics are."""

    services: Services
    options: RocketFrontOptions
    clients: Clients
    snodes: Snodes = field(default_factory=Snodes, kw_only=True)
    admission: Admission | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "admission", admission_of(self.options))

    @property
    def now(self) -> float:
        """Seconds for deadlines."""
        return self.services.runtime.monotonic()

    @property
    def now_ms(self) -> int:
        """The wall clock."""
        return self.services.runtime.now_ms()


@dataclass(frozen=True, slots=True)
class Shared(Connected):
    """What all handlers of a front over a log share. ``held`` counts the pulls that wait for messages."""

    cluster: Cluster
    settings: Settings
    places: Places
    queue_locks: QueueLocks
    positions: Positions
    reader: Reader
    writing: Writing
    delays: Delays
    transactions: Transactions
    ledger: Ledger
    background: BackgroundWorker
    turns: LoopBudget
    held: Shares[object]
    meter: Meter
    counts: Counts

    @property
    def enode(self) -> Enode:
        return self.services.enode

    @property
    def offsets(self) -> Offsets:
        return self.services.offsets

    def retries(self, group: str) -> int:
        """How many redeliveries a group's message gets before it becomes a dead letter."""
        return self.settings.retries(group, self.options.retries)


class ClientConnection(WaiterSet):
    """One client's connection: its address, how to push to it, and the requests that wait on it.

    ``asked``: callbacks for the client's responses to requests that the node pushed, by request number; a callback gets
    None if no response will come. ``born_host``: the client's address in messages that it sends. ``broker``: the broker
    that requests without a broker name are for; None if the connection does not determine it.
    """

    __slots__ = ("address", "asked", "born_host", "broker", "hang_up", "push")

    def __init__(self, address: Endpoint, push: Callable[[Buffers], None], hang_up: Callable[[], None]) -> None:
        super().__init__()
        self.address = address
        self.born_host = str(address)
        self.push = push
        self.hang_up = hang_up
        self.broker: str | None = None
        self.asked: dict[int, Callable[[RemotingCommand | None], None]] = {}

    def answered(self, frame: CommandFrame) -> None:
        """The client has answered a request that the node pushed; most of those need no response."""
        heard = self.asked.get(frame.command.opaque)
        if heard is not None:
            heard(frame.command if frame.unreadable is None else None)

    def release(self) -> None:
        """Wake up everything that waits on this connection or for this client's responses."""
        super().release()
        for heard in list(self.asked.values()):
            heard(None)


class ClientSession:
    """What is the same in a client's session over the node's own log and in front of brokers."""

    ordered: bool = False

    def __init__(self, shared: Connected, line: ClientConnection) -> None:
        self._connected = shared
        self.line = line

    def framing(self) -> RocketFraming:
        """A new receiving side."""
        return RocketFraming(answers=False)

    def lost(self) -> None:
        """The connection is gone: remove the client from its groups and release its waiting requests."""
        self.line.release()
        self._connected.clients.lost(self.line)
        self._connected.snodes.lost(self.line)


class OfConnected(msgspec.Struct, frozen=True):
    """The context of one request; ``asked`` is the whole request with its body."""

    shared: Connected
    line: ClientConnection
    asked: RemotingCommand


class Call(OfConnected, frozen=True):
    """The context of a request where topics are in a log."""

    shared: Shared


class Reply(msgspec.Struct, frozen=True):
    """A response: header, body (bytes or declared), code, remark and extra fields."""

    header: object = None
    body: object = b""
    code: int = Code.SUCCESS
    remark: str | None = None
    extra: Mapping[str, str] | None = None


async def read_large(background: BackgroundWorker, kind: type[B], body: Buffer) -> B:
    """Read a JSON body. A large one is read in a thread, since that takes up to two seconds. Raises as `read_body`."""
    if len(body) <= _QUICK_BYTES:
        return read_body(kind, body)
    return await background.run(lambda: read_body(kind, body), _DECODED * len(body))


async def written(background: BackgroundWorker, body: object, entries: int) -> object:
    """A response's body with ``entries`` entries; a long one is written in a thread and returned as bytes."""
    if entries <= _QUICK_ENTRIES:
        return body
    return await background.run(lambda: write_body(body), entries * _ENTRY_BYTES)


Handler = Callable[[Call, Any], Awaitable[Reply]]
"""Takes the call and the request's header. Returns the response. Raises Refused."""
