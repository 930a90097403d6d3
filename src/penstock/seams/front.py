"""Front: one protocol's server side, over the node's services. One Session per client connection.

``ordered`` sessions (Kafka) handle one frame at a time and answer in order; others (RocketMQ, TubeMQ) handle frames
side by side and answer by correlation. Either may push at any time through its Peer.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Protocol, runtime_checkable

from penstock._dataclasses import dataclass
from penstock.model import Endpoint
from penstock.seams.framing import Buffers, Frame, Framing, Pieces
from penstock.seams.later import Later

__all__ = ["Front", "HangsUpIdle", "HasSideDoors", "OpenDoor", "Opens", "OpensDoors", "Peer", "Session", "SharesGroups"]


@dataclass(frozen=True, slots=True)
class Peer:
    """The client at the other end: its address, a way to push framed bytes to it, and to hang up."""

    address: Endpoint
    push: Callable[[Buffers], None]
    hang_up: Callable[[], None]


class Session(Protocol):
    @property
    def ordered(self) -> bool: ...

    @property
    def at_once(self) -> bool:
        """Whether `handle` is begun where its frame arrives, in no task: what needs no waiting is answered there.

        For that nothing before its first wait may ask for its task, so the enode has to be a near one (`Enode.near`).
        """
        ...

    def framing(self) -> Framing: ...

    async def handle(self, frame: Frame) -> Pieces | Later[Pieces] | None:
        """Serve one request: framed bytes to write, or None for no answer. Only unordered sessions answer later.

        A PenstockError raised here closes the connection (and only this one); anything else is a bug: it is logged
        and closes the connection too.
        """
        ...

    def lost(self) -> None:
        """The connection is gone; parked work of this session must be dropped."""
        ...


class Opens(Protocol):
    """What a listener needs of a front."""

    def session(self, peer: Peer) -> Session: ...


class Front(Opens, Protocol):
    @property
    def scheme(self) -> str:
        """URL scheme of its listeners: "kafka", "tubemq", "rocketmq"."""
        ...

    async def start(self) -> None:
        """Load state (groups, offsets); called once before the first session."""
        ...

    async def stop(self) -> None:
        """Answer or drop what is parked; called once, before the store closes."""
        ...


@runtime_checkable
class HasSideDoors(Protocol):
    """A front that is reached at further ports of its listener's address, where the port itself means something."""

    @property
    def side_doors(self) -> Mapping[int, Opens]:
        """Those that its options ask for (`penstock.config.snode.SidePorts`), by port."""
        ...


@runtime_checkable
class HangsUpIdle(Protocol):
    """A front whose protocol says how long a connection may be silent."""

    @property
    def idle_timeout_s(self) -> float:
        """Without a frame for so long, and nothing being served, a connection is closed."""
        ...


OpenDoor = Callable[[int, Opens], Awaitable[None]]
"""Listens at a further port of the same host. Raises OSError where it cannot be had."""


@runtime_checkable
class OpensDoors(Protocol):
    """A front that is reached at further ports which it may do without, or learns of while it runs."""

    async def open_doors(self, main: int, open_at: OpenDoor) -> None:
        """Called once all of the node's listeners listen, this front's at port ``main``."""
        ...


@runtime_checkable
class SharesGroups(Protocol):
    """A front that has one group membership with others like it, so that several may serve one address."""

    @property
    def siblings(self) -> int:
        """How many others it hears."""
        ...
