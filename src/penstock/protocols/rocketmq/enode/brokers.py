"""Brokers: which there are, by name and id, and where each is reached, as name servers said last.

A name that name servers do not say any more keeps its last addresses for ten minutes: one that has just started knows
only those brokers that have said so already.
What must not live here: asking, connecting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from penstock.config.address import host_and_port
from penstock.errors import UsageError
from penstock.model import Endpoint
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.records.ids import Host

__all__ = ["MASTER", "Broker", "Brokers", "endpoint_of"]

MASTER: Final = 0
_FORGOTTEN_S: Final = 600.0
_MOST: Final = 10_000
"""Brokers whose names are kept: who says more lies."""


class Broker(NamedTuple):
    """One server: ``number`` 0 is the master of its name, others are its standbys."""

    name: str
    number: int
    endpoint: Endpoint


class Brokers:
    """All of one cluster's name servers; addresses come from them only, never from a client."""

    def __init__(self) -> None:
        self._known: dict[str, dict[int, Endpoint]] = {}
        self._said_s: dict[str, float] = {}
        self._names: dict[Endpoint, str] = {}
        self.clusters: Mapping[str, tuple[str, ...]] = {}

    def told(self, info: m.ClusterInfo, now_s: float) -> None:
        """What a name server says. Addresses that are none are passed over, and so is one that knows no broker at all.

        ``now_s`` is of a clock that never goes back.
        """
        for name, broker in info.broker_addr_table.items():
            found = {number: at for number, text in broker.broker_addrs.items() if (at := endpoint_of(text))}
            if found and (name in self._known or len(self._known) < _MOST):
                self._known[name] = found
                self._said_s[name] = now_s
        if info.broker_addr_table:
            for name in [each for each, said_s in self._said_s.items() if now_s - said_s > _FORGOTTEN_S]:
                del self._known[name], self._said_s[name]
        self.clusters = info.cluster_addr_table
        self._names = {at: name for name, places in self._known.items() for at in places.values()}

    @property
    def names(self) -> Sequence[str]:
        """Sorted."""
        return sorted(self._known)

    def masters(self) -> Sequence[Broker]:
        """Those that are known, by name."""
        return [Broker(name, MASTER, self._known[name][MASTER]) for name in self.names if MASTER in self._known[name]]

    def of(self, name: str, number: int = MASTER, *, standby: bool = False) -> Broker:
        """The server with this number; with ``standby`` another of its name where that is not there.

        Raises UsageError for a name that the cluster does not have, so that no client chooses where the node connects.
        """
        places = self._known.get(name)
        if places is None:
            raise UsageError(f"the cluster has no broker {name[:100]!r}")
        if number not in places and standby:
            number = MASTER if MASTER in places else min(places)
        if number not in places:
            raise UsageError(f"no name server knows a master of broker {name[:100]!r} now")
        return Broker(name, number, places[number])

    def known(self, name: str) -> str | None:
        """A broker's name, given that, or its address as ``host:port``, or its VIP address, which is two ports below;
        None for what is neither."""
        if name in self._known:
            return name
        at = endpoint_of(name)
        return None if at is None else self._names.get(at) or self._names.get(Endpoint(at.host, at.port + 2))

    def at(self, host: Host) -> str | None:
        """The name of the broker that an id of a message says, if there is one."""
        return self.known(str(host))


def endpoint_of(text: str) -> Endpoint | None:
    """``host:port`` as brokers register; None for anything else."""
    host, port = host_and_port(text)
    if not host or not port.isascii() or not port.isdecimal() or len(port) > 5 or not 0 < int(port) < 1 << 16:
        return None
    return Endpoint(host, int(port))
