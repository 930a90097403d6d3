"""What a handler is given beside its request's header: who asks, the request itself, and the front's shared parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock._dataclasses import dataclass
from penstock.model import Endpoint
from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.admission import Admission, admission_of
from penstock.protocols.rocketmq.front.cluster import Cluster
from penstock.protocols.rocketmq.front.options import RocketFrontOptions
from penstock.protocols.rocketmq.front.snodes import Snodes
from penstock.protocols.rocketmq.messages import read_body, write_body
from penstock.seams.beside import Beside, Turns
from penstock.seams.enode import Enode
from penstock.seams.framing import Buffer, Buffers
from penstock.seams.meters import Meter
from penstock.seams.node import Offsets, Services
from penstock.seams.parking import Parking
from penstock.seams.shares import Shares

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.front.broker.counts import Counts
    from penstock.protocols.rocketmq.front.broker.delays import Delays
    from penstock.protocols.rocketmq.front.broker.groups import Clients
    from penstock.protocols.rocketmq.front.broker.places import Places
    from penstock.protocols.rocketmq.front.broker.positions import Positions
    from penstock.protocols.rocketmq.front.broker.queue_locks import QueueLocks
    from penstock.protocols.rocketmq.front.broker.reading import Reader
    from penstock.protocols.rocketmq.front.broker.settings import Settings
    from penstock.protocols.rocketmq.front.broker.transactions import Transactions
    from penstock.protocols.rocketmq.front.broker.writing import Writing
    from penstock.protocols.rocketmq.front.ledger import Ledger

__all__ = ["IDLE_S", "Call", "Connected", "Handler", "Line", "OfConnected", "Reply", "Shared", "read_large", "written"]

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
    beside: Beside
    turns: Turns
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


class Line(Parking):
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
    line: Line
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


async def read_large(beside: Beside, kind: type[B], body: Buffer) -> B:
    """Read a request's body of JSON; a large one in a thread, since that takes up to two seconds. See `read_body`."""
    if len(body) <= _QUICK_BYTES:
        return read_body(kind, body)
    return await beside.run(lambda: read_body(kind, body), _DECODED * len(body))


async def written(beside: Beside, body: object, entries: int) -> object:
    """An answer's body of so many entries; that of many as bytes, which a thread has written."""
    if entries <= _QUICK_ENTRIES:
        return body
    return await beside.run(lambda: write_body(body), entries * _ENTRY_BYTES)


Handler = Callable[[Call, Any], Awaitable["Reply | bytes"]]
"""Takes the request's header. Returns the answer; bytes: framed already. Raises Refused for one that says no."""
