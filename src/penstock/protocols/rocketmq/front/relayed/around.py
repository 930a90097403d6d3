"""What all sessions of a front over real brokers share: the way there, who is here, and what is remembered of answers.

All of it is in memory, bounded, and made anew by clients' next words after a restart.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Final, Generic, TypeVar

from penstock._dataclasses import dataclass
from penstock.model import Endpoint
from penstock.protocols.rocketmq.command import RemotingCommand, code_of
from penstock.protocols.rocketmq.enode.brokers import endpoint_of
from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.protocols.rocketmq.front.call import Connected, Line
from penstock.protocols.rocketmq.front.doors import VIP_BELOW, BrokerPorts, names_no_broker
from penstock.protocols.rocketmq.front.telling import tell
from penstock.protocols.rocketmq.messages import Route
from penstock.seams.beside import Beside
from penstock.seams.framing import Buffers
from penstock.seams.meters import Meter
from penstock.seams.runtime import Promise
from penstock.seams.shares import Shares

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.front.relayed.made_groups import MadeGroups
    from penstock.protocols.rocketmq.front.relayed.peers import Peers
    from penstock.protocols.rocketmq.front.relayed.producers import ProducerGroups
    from penstock.protocols.rocketmq.front.relayed.retry_topics import RetryTopics

__all__ = ["Around", "Kept", "RelayedLine", "Traffic"]

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
_SCHEME: Final = "rocketmq"
_TURNS: Final = 100


class Kept(Generic[K, V]):
    """The ``most`` values that were used last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[K, V] = OrderedDict()

    def __len__(self) -> int:
        return len(self._values)

    def get(self, key: K) -> V | None:
        """What is kept of it."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key]

    def put(self, key: K, value: V) -> None:
        """Keep it, instead of what was not used for longest."""
        self._values[key] = value
        self._values.move_to_end(key)
        if len(self._values) > self._most:
            self._values.popitem(last=False)

    def drop(self, key: K) -> None:
        """Keep nothing of it."""
        self._values.pop(key, None)


class RelayedLine(Line):
    """A client's connection; ``number`` tells it from others, ``turns`` whose turn it is where it names nobody."""

    __slots__ = ("number", "turns")

    def __init__(
        self,
        number: int,
        address: Endpoint,
        push: Callable[[Buffers], None],
        hang_up: Callable[[], None],
        broker: str | None = None,
    ) -> None:
        super().__init__(address, push, hang_up)
        self.number = number
        self.broker = broker
        self.turns: Kept[Hashable, int] = Kept(_TURNS)


@dataclass(slots=True)
class Traffic:
    """Requests that are under way to brokers, ``most`` at once; ``held`` of them are kept there on purpose."""

    most: int
    under_way: int = 0
    held: int = 0


@dataclass(frozen=True, slots=True)
class Around(Connected):
    """``suggested``: which standby a broker sent a group's reads of a queue to; ``checked``: which broker asked about
    a transaction; ``held``: requests that brokers keep on purpose; ``routes``: what name servers last said of a topic,
    for when none answers."""

    relay: RocketRelay
    producers: ProducerGroups
    retry_topics: RetryTopics
    peers: Peers
    traffic: Traffic
    made_groups: MadeGroups
    beside: Beside
    held: Shares[object]
    meter: Meter
    ports: BrokerPorts
    suggested: Kept[tuple[str, str, str, str], int] = field(default_factory=lambda: Kept(100_000))
    checked: Kept[tuple[str, str], str] = field(default_factory=lambda: Kept(100_000))
    routes: Kept[str, Route] = field(default_factory=lambda: Kept(1_000))

    def place_of(self, broker: str, asked: RemotingCommand) -> str:
        """Where a client is told that a broker is: here, at its own port if it has one and this client needs it."""
        here = self.services.identity.advertised[_SCHEME]
        return str(Endpoint(here.host, self.ports.port(broker, here.port, needed=names_no_broker(asked))))

    def is_here(self, address: str) -> tuple[bool, str | None]:
        """Whether clients were told this address, and of which broker: None where it is the node's main port."""
        at, identity = endpoint_of(address), self.services.identity
        hosts = {each.host for each in (identity.advertised.get(_SCHEME), identity.reached.get(_SCHEME)) if each}
        if at is None or at.host not in hosts:
            return False, None
        broker, main = self.ports.meaning(at.port), identity.advertised[_SCHEME].port
        return broker is not None or at.port in (main, main - VIP_BELOW), broker

    def count(self, api: int, began: float, answer: Buffers, line: Line, fields: Mapping[str, str]) -> None:
        """A request that came then, from there and with these ext fields, is answered now."""
        self.meter.answered(api, self.meter.now() - began)
        if code := code_of(answer):
            self.meter.refused(api, code)
            tell(self.meter, self.clients, line, api, fields, code, answer)

    async def task(self) -> None:
        """Go on in a task: what waits for a connection needs one (`Session.at_once`)."""
        turn: Promise[None] = self.services.runtime.promise()
        self.services.runtime.call_later(0, lambda: turn.set(None))
        await turn
