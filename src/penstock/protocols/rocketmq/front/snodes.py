"""Which Snodes there are, as they register at a name server, which this front is to its clients. The node is one, too.

A Snode is forgotten when its connection is gone, or when it was silent for two minutes, as brokers are at name servers;
the first Snode's own name server never forgot one. Source: the Snode of 2018 and 2019, ``RouteInfoManager``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.seams.shares import Shares

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.front.call import Connected, Line

__all__ = ["Snodes", "info", "own"]

_SILENT_S: Final = 120.0
_MOST: Final = 1_000
_LONGEST: Final = 255
_SNODE_BYTES: Final = 2_000
_SCHEME: Final = "rocketmq"


@dataclass(slots=True)
class _Registered:
    said: m.SnodeData
    line: Line
    seen: float


class Snodes:
    """Of one front, by name; times are seconds of a clock that never goes back.

    ``elsewhere`` are those that other name servers said last, where this node asks some.
    """

    def __init__(self) -> None:
        self._known: dict[str, _Registered] = {}
        self._shares: Shares[str] = Shares("Snodes registered", "fixed", _MOST)
        self.elsewhere: tuple[m.SnodeData, ...] = ()

    def register(self, line: Line, said: m.RegisterSnode, now: float) -> None:
        """A Snode is here; where one of its name was known, it has moved. Raises Refused."""
        for text in (said.snode_name, said.snode_addr, said.cluster_name):
            if not 0 < len(text) <= _LONGEST:
                raise Refused(Code.SYSTEM_ERROR, f"a Snode's name, address or cluster has {len(text)} letters")
        if (full := self._shares.put(said.snode_name, line, _SNODE_BYTES)) is not None:
            raise Refused(Code.SYSTEM_BUSY, full)
        data = m.SnodeData(snode_name=said.snode_name, address=said.snode_addr, cluster_name=said.cluster_name)
        self._known[said.snode_name] = _Registered(data, line, now)

    def lost(self, line: Line) -> None:
        """A connection is gone, and whoever registered over it last."""
        self._keep(each for each in self._known.values() if each.line is not line)

    def expire(self, now: float) -> None:
        """Forget who was silent."""
        self._keep(each for each in self._known.values() if each.seen >= now - _SILENT_S)

    @property
    def all(self) -> list[m.SnodeData]:
        """All of them; of two of a name the one that registered here stands last."""
        return [*self.elsewhere, *(each.said for each in self._known.values())]

    def _keep(self, kept: Iterable[_Registered]) -> None:
        before = self._known.keys()
        self._known = {each.said.snode_name: each for each in kept}
        for name in before - self._known.keys():
            self._shares.drop(name)


def own(shared: Connected) -> m.SnodeData:
    """This node, as others are told."""
    identity, options = shared.services.identity, shared.options
    address = str(identity.advertised[_SCHEME])
    name = options.snode_name or f"penstock-{identity.node_id}@{address}"
    return m.SnodeData(snode_name=name, address=address, cluster_name=options.cluster)


def info(snodes: Iterable[m.SnodeData], cluster: str | None = None) -> m.SnodeClusterInfo:
    """As answers tell them, of one cluster or of all; of two of a name the last counts."""
    table = {each.snode_name: each for each in snodes if cluster is None or each.cluster_name == cluster}
    clusters: dict[str, tuple[str, ...]] = {}
    for name, each in table.items():
        clusters[each.cluster_name] = (*clusters.get(each.cluster_name, ()), name)
    return m.SnodeClusterInfo(snode_table=table, snode_cluster=clusters)
