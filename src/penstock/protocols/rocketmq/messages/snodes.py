"""What only the first Snode's branch says: which Snodes there are, and a group's retry topic. 350, 353, 354, 355.

Numbers that 5.x gave to other requests later; which of the two is meant, their fields tell (``front/meanings``).
Source: the Snode of 2018 and 2019, ``RegisterSnodeRequestHeader``, ``ClusterInfo``, ``GetSnodeInfoRequestHeader``.
"""

from __future__ import annotations

from dataclasses import field

from penstock._dataclasses import dataclass

__all__ = ["CreateRetryTopic", "OfSnodeCluster", "RegisterSnode", "SnodeClusterInfo", "SnodeData"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterSnode:
    """350: a Snode is here. Said anew every half minute; there is no request that takes it back."""

    snode_name: str
    snode_addr: str
    cluster_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfSnodeCluster:
    """354: the Snodes of a cluster, or all."""

    snode_cluster_name: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SnodeData:
    """One Snode: ``address`` is its ``host:port``."""

    snode_name: str
    address: str
    cluster_name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SnodeClusterInfo:
    """The body of the answers to 353 and 354: Snodes by their names, and their names by clusters."""

    snode_table: dict[str, SnodeData] = field(default_factory=dict)
    snode_cluster: dict[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateRetryTopic:
    """355: make a group's retry topic at a broker (*enode*). The group's name is understood in either spelling."""

    group_name: str | None = None
    consumer_group: str | None = None
    enode_name: str | None = None
