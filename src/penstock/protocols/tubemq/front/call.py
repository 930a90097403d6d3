"""What a handler is given beside its request: who asks, and the front's shared parts."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, Final, TypeVar

from penstock._dataclasses import dataclass
from penstock.concurrency.background import Beside, Turns
from penstock.concurrency.locks import Locks
from penstock.concurrency.runtime import Later
from penstock.errors import PenstockError
from penstock.interfaces.enode import Enode
from penstock.interfaces.framing import Buffers
from penstock.interfaces.front import Meter
from penstock.interfaces.node import Offsets, Services
from penstock.model import Endpoint
from penstock.protocols.tubemq.front.cluster import Cluster
from penstock.protocols.tubemq.front.options import TubeFrontOptions
from penstock.protocols.tubemq.messages.declare import Message

if TYPE_CHECKING:
    from penstock.protocols.tubemq.front.broker.bookings import Bookings
    from penstock.protocols.tubemq.front.broker.positions import Positions
    from penstock.protocols.tubemq.front.broker.routes import Routes
    from penstock.protocols.tubemq.front.broker.warming import Warming
    from penstock.protocols.tubemq.front.broker.writing import Writing
    from penstock.protocols.tubemq.front.master.groups import Groups
    from penstock.protocols.tubemq.front.master.producers import Producers
    from penstock.protocols.tubemq.front.settings import Settings
    from penstock.protocols.tubemq.front.settings_log import SettingsLog

__all__ = ["Answered", "Call", "Continued", "Handler", "Line", "Place", "Shared"]

T = TypeVar("T")

_QUICK_BYTES: Final = 32 << 10
_PARSED: Final = 8
"""Bytes of objects that a byte of text becomes, about."""

Place = tuple[str, str, int]
"""A group's place in a partition as clients name it: group, topic, TubeMQ's id of the partition."""


@dataclass(frozen=True, slots=True)
class Shared:
    """What all handlers of a front share. ``visit_token``: what the master gives and the broker does not look at.

    ``readers``: what a group's readers ask of a partition is done in the order of the requests. ``senders``: messages
    to a partition, by topic and TubeMQ's id, are put into the log in the order in which they came.
    """

    services: Services
    options: TubeFrontOptions
    cluster: Cluster
    settings: Settings
    settings_log: SettingsLog
    groups: Groups
    producers: Producers
    bookings: Bookings
    positions: Positions
    writing: Writing
    routes: Routes
    warming: Warming
    beside: Beside
    turns: Turns
    readers: Locks[Place]
    senders: Locks[tuple[str, int]]
    meter: Meter
    visit_token: int

    @property
    def enode(self) -> Enode:
        return self.services.enode

    @property
    def offsets(self) -> Offsets:
        return self.services.offsets

    @property
    def now(self) -> float:
        """Seconds for deadlines."""
        return self.services.runtime.monotonic()

    async def parsed(self, size: int, parse: Callable[[], T]) -> T:
        """What ``parse`` makes of so many bytes of a request; of many in a thread, since that takes its time."""
        return parse() if size <= _QUICK_BYTES else await self.beside.run(parse, _PARSED * size)

    @property
    def now_ms(self) -> int:
        """The wall clock."""
        return self.services.runtime.now_ms()


class Line:
    """One client's connection, from ``address``.

    ``alone``: whether the request that is begun just now came without another one.

    ``sends``: the client's id and the topic that were found to be good in its last message to another one, ``topic``.
    """

    __slots__ = ("address", "alone", "sends", "topic")

    def __init__(self, address: Endpoint) -> None:
        self.address = address
        self.alone = False
        self.sends: tuple[str, str] | None = None
        self.topic = ""


@dataclass(slots=True)
class Call:
    """One request's circumstances; ``version`` of the protocol as the client says it, 0 where it does not."""

    shared: Shared
    version: int
    line: Line


@dataclass(frozen=True, slots=True)
class Continued:
    """An answer whose last fields are encoded already: ``rest`` goes behind the message as it is."""

    message: Message
    rest: Buffers


Answered = Message | Continued | Later[Message | PenstockError]

Handler = Callable[[Call, Any], Awaitable[Answered]]
"""Returns the answer, or a later one. Raises Refused for one that says what is wrong, Thrown for an exception in its
place; a later one is given what it would have raised."""
