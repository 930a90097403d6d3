"""What a handler is given besides its request's header: who asks, the request itself, and the front's shared parts;
and what is checked before any handler runs.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock._dataclasses import dataclass
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
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.messages import read_body, write_body
from penstock.protocols.rocketmq.wire.rpc import ACCESS_KEY, UNSIGNED_KEY, is_signed

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.server.clients import Clients, Counts, QueueLocks
    from penstock.protocols.rocketmq.server.ledger import Ledger, Places, Positions, Settings
    from penstock.protocols.rocketmq.server.log_access import Reader, Writing
    from penstock.protocols.rocketmq.server.parked_messages import Delays, Transactions

__all__ = [
    "IDLE_S",
    "TOO_MANY",
    "TOO_MUCH",
    "Admission",
    "Bucket",
    "Call",
    "ClientConnection",
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

# Numbers that mean two things: to the first Snode's branch, and to 5.x, which gave them out anew. Their fields tell.
#
# 351 pulls where it says an offset, else it asks for a topic's settings. 353 to 355 are the Snode's unless they have a
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
    """Whether it reads, as the first Snode's clients do."""
    return asked.code == _SNODE_PULL and _OFFSET in asked.fields


def is_of_5x(asked: RemotingCommand) -> bool:
    """Whether it has the number of a Snode's request and is another one, which nobody serves here."""
    only = _ONLY_IN_5X.get(asked.code)
    return only is not None and not only.isdisjoint(asked.fields)


# Flow control: so many requests, and so many bytes of bodies, in a second, by request code and over all.
#
# Each limit is a bucket. It holds what is allowed in one second, is filled at that rate, and a request takes out what
# it costs. One that costs more than a whole bucket passes when the bucket is full, and those behind it wait until the
# debt is paid; else it would never pass. What is refused takes nothing. The clock comes in as an argument.
#
# As the first Snode's interceptors had it, and where these went wrong, not: ``overall`` was read and never asked, a
# body below 1 KB cost nothing, and one above the limit was refused for ever. Source: the Snode of 2019,
# ``QPSFlowControlServiceImpl``, ``RequestSizeFlowControlServiceImpl``, ``AbstractFlowControlService``.
TOO_MANY: Final = "[REJECT]exceed system flow control config QPS, start flow control for a while"
TOO_MUCH: Final = "[REJECT]exceed system flow control config request size, start flow control for a while"
"""The first Snode's words, which people look for in their logs."""

_HEARTBEAT: Final = 34
_KILO: Final = 1_024


class Bucket:
    """``rate`` is what is allowed in a second, and what the bucket holds. Times are seconds that never go back."""

    __slots__ = ("_at", "_left", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._left = rate
        self._at: float | None = None

    def has(self, cost: float, now: float) -> bool:
        """Whether there is enough, or all that there can be."""
        if self._at is not None:
            self._left = min(self.rate, self._left + (now - self._at) * self.rate)
        self._at = now
        return self._left >= min(cost, self.rate)

    def take(self, cost: float) -> None:
        """After `has` said so."""
        self._left -= cost


class Flow:
    """``requests`` and ``kilobytes`` are limits a second, by request code as text, and of ``overall``."""

    def __init__(self, requests: Mapping[str, int], kilobytes: Mapping[str, int]) -> None:
        self._requests = {name: Bucket(limit) for name, limit in requests.items()}
        self._bytes = {name: Bucket(limit * _KILO) for name, limit in kilobytes.items()}

    def refuses(self, code: int, size: int, now: float) -> str | None:
        """Why a request with a body of ``size`` bytes is too much now; None: it is counted. Heartbeats are not counted
        as requests: a client that is thrown out for its silence would only come back with more."""
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


# What is asked of a request before anything else: a signature, where clients have accounts, and not to be too much.
#
# A signature is over everything that a client says, so that it holds here only, where nothing was changed yet; what
# goes on to brokers is signed anew (``backend/relay``). Source: Apache RocketMQ 4.9, ``PlainPermissionManager``,
# whose words these are; the code is the Proxy's.
_log = logging.getLogger("penstock.node")

_QUERY_MESSAGE: Final = 12
_TELL_EVERY: Final = 100


class Admission:
    """Of one front; ``accounts`` are access keys and their secrets, none: nobody has to sign."""

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
        # Clients differ in whether this field of theirs is signed.
        if asked.code == _QUERY_MESSAGE and is_signed(secret, asked.fields, asked.body, without=(UNSIGNED_KEY,)):
            return
        raise Refused(Code.NO_PERMISSION, f"Check signature failed for accessKey={key[:100]}")


def admission_of(options: RocketFrontOptions) -> Admission | None:
    """What an operator chose; None where everything is let in."""
    if not (options.accounts or options.flow_requests or options.flow_kilobytes):
        return None
    return Admission(options.accounts, Flow(options.flow_requests, options.flow_kilobytes))


B = TypeVar("B")

IDLE_S: Final = 120.0
"""A connection that says nothing for so long is closed, as by brokers; clients beat every 30 s."""

_QUICK_BYTES: Final = 32 << 10
_QUICK_ENTRIES: Final = 500
_DECODED: Final = 12
"""Bytes of objects that a byte of JSON becomes, about."""
_ENTRY_BYTES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Connected:
    """What handlers share that answer for the clients that are connected, wherever topics are kept."""

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
    """What all handlers of a front share. ``held``: pulls that wait for messages, by a number of each."""

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
    beside: BackgroundWorker
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
        """How often a message is delivered to a group again before it is a dead letter."""
        return self.settings.retries(group, self.options.retries)


class ClientConnection(WaiterSet):
    """One client's connection: where it comes from, what it can be told, and whether anybody still waits there.

    ``asked`` is who hears the client's answer to a question of ours, by its number; None where none will come.
    ``born_host``: its address as messages that come from it say it.
    ``broker``: which one is meant by what comes here and names none; None: it does not follow from the connection.
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

    def release(self) -> None:
        """Nothing is worth waiting for any more, here or of this client."""
        super().release()
        for heard in list(self.asked.values()):
            heard(None)


@dataclass(frozen=True, slots=True)
class OfConnected:
    """One request's circumstances; ``asked`` is the whole of it, with the body."""

    shared: Connected
    line: ClientConnection
    asked: RemotingCommand


@dataclass(frozen=True, slots=True)
class Call(OfConnected):
    """The same where topics are kept in a log."""

    shared: Shared


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer: its header, its body (bytes, or declared), its code and what is said beside them."""

    header: object = None
    body: object = b""
    code: int = Code.SUCCESS
    remark: str | None = None
    extra: Mapping[str, str] = field(default_factory=dict)


async def read_large(beside: BackgroundWorker, kind: type[B], body: Buffer) -> B:
    """Read a request's body of JSON; a large one in a thread, since that takes up to two seconds. See `read_body`."""
    if len(body) <= _QUICK_BYTES:
        return read_body(kind, body)
    return await beside.run(lambda: read_body(kind, body), _DECODED * len(body))


async def written(beside: BackgroundWorker, body: object, entries: int) -> object:
    """An answer's body of so many entries; that of many as bytes, which a thread has written."""
    if entries <= _QUICK_ENTRIES:
        return body
    return await beside.run(lambda: write_body(body), entries * _ENTRY_BYTES)


Handler = Callable[[Call, Any], Awaitable["Reply | bytes"]]
"""Takes the request's header. Returns the answer; bytes: framed already. Raises Refused for one that says no."""
