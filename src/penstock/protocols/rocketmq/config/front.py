"""What a node is told of its RocketMQ front."""

from __future__ import annotations

from dataclasses import dataclass

from penstock.config.address import parse_endpoints
from penstock.config.fields import check, flag, number, text
from penstock.model import Endpoint

__all__ = ["RocketNodeConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketNodeConfig:
    """``rocketmq_cluster``: what RocketMQ's own brokers are called unless told. ``snode_name``: two Snodes may have one
    ``node_id``, but never one address. ``register_snode_ms``: the first Snode's own; whoever keeps Snodes forgets one
    after two minutes. ``rocketmq_timeout_ms``: theirs, too;
    clients beat every 30 seconds. ``transaction_check_ms``: how often it is looked for half messages that nobody has
    decided on; their producers are asked about those older than six seconds, and RocketMQ's own minute is what people
    wait for then. ``enode_timeout_ms``: less than the three seconds after which Java's clients give up, so that they
    hear why. ``snodes``: for those that are not to be found through name servers. ``delay_scale_percent``: shorter
    levels are for tests only.
    """

    rocketmq_cluster: str = text("DefaultCluster", about="the name of the cluster that RocketMQ's clients are told")
    snode_name: str = text("", about="what it is called among RocketMQ's Snodes; empty: by its number and address")
    register_snode_ms: int = number(
        30_000,
        low=0,
        high=60_000,
        about="in front of a RocketMQ cluster: how often name servers are told of it; 0: never",
    )
    rocketmq_timeout_ms: int = number(
        120_000, low=1_000, about="without a heartbeat for so long a RocketMQ client is out"
    )
    transaction_check_ms: int = number(
        10_000, low=50, about="how often producers are asked about RocketMQ messages that they did not decide on"
    )
    enode_timeout_ms: int = number(
        2_500, low=100, about="in front of a RocketMQ cluster: how long a broker may take to answer"
    )
    snodes: str = text(
        "",
        about="other Snodes before the same RocketMQ cluster, which share groups with this one",
        allowed="HOST:PORT[,HOST:PORT]",
    )
    find_snodes: bool = flag(
        True, about="find those through the name servers, and be found there: KV settings in PENSTOCK_SNODES"
    )
    delay_scale_percent: int = number(
        100, low=0, high=100, about="how long RocketMQ's delay levels take, of what they say; less is for tests"
    )

    def __post_init__(self) -> None:
        check(self)
        self.other_snodes()

    def other_snodes(self) -> tuple[Endpoint, ...]:
        """``snodes``, taken apart. Raises ConfigError."""
        return parse_endpoints(self.snodes, lambda: None)
