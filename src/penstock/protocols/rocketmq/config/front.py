"""What a node is told of its RocketMQ front."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock._dataclasses import dataclass
from penstock.config.address import parse_endpoints
from penstock.config.fields import check, flag, number, secret, text
from penstock.model import Endpoint
from penstock.protocols.rocketmq.config.lists import accounts_of, limits_of, ports_of

__all__ = ["RocketNodeConfig"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketNodeConfig:
    """``rocketmq_cluster``: what RocketMQ's own brokers are called unless told. ``snode_name``: two Snodes may have one
    ``node_id``, but never one address. ``register_snode_ms``: the first Snode's own; whoever keeps Snodes forgets one
    after two minutes. ``rocketmq_timeout_ms``: theirs, too; clients beat every 30 seconds. ``transaction_check_ms``:
    how often it is looked for half messages that nobody has decided on; their producers are asked about those older
    than six seconds, and RocketMQ's own minute is what people wait for then. ``enode_timeout_ms``: less than the three
    seconds after which Java's clients give up, so that they hear why; a write is waited for much longer, for what may
    be stored yet must not be sent again. ``snodes``: for those that are not to be found through name servers.
    ``rocketmq_accounts``: who may ask; with ``sign_as_clients`` brokers see each by its own name and give it its own
    rights, without it they see the node's for all. Flow control is off unless told: limits that nobody chose would be
    met on the day that matters. ``delay_scale_percent``: shorter levels are for tests only. ``rocketmq_broker_ports``
    is empty because a node chooses ports by itself for the clients that need one; who has to know them names brokers
    rather than a range of ports, for a port must never come to mean another broker: not in a process that has started
    later, and not after a restart, while clients still know what it meant before.
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
    rocketmq_housekeeping_ms: int = number(
        10_000, low=100, about="how often it is looked which RocketMQ clients were silent for too long"
    )
    rocketmq_notify_members: bool = flag(True, about="RocketMQ consumers are told who else comes and goes")
    rocketmq_auto_create_groups: bool = flag(
        True, about="any name is a RocketMQ consumer group; else only one that was made (mqadmin updateSubGroup)"
    )
    rocketmq_max_clients: int = number(
        20_000, low=20, about="places of RocketMQ connections in groups, over all groups; more are refused"
    )
    rocketmq_max_locks: int = number(
        100_000, low=20, about="queues that RocketMQ's orderly consumers have locked; more are refused"
    )
    rocketmq_max_held: int = number(50_000, low=20, about="RocketMQ pulls that wait; more are refused")
    enode_look_ms: int = number(
        10_000, low=1_000, about="in front of a RocketMQ cluster: how often name servers are asked where brokers are"
    )
    producer_beat_ms: int = number(
        15_000, low=100, high=100_000, about="the same: how often brokers are told whose transactions to ask about here"
    )
    transaction_check_ms: int = number(
        10_000, low=50, about="how often producers are asked about RocketMQ messages that they did not decide on"
    )
    enode_timeout_ms: int = number(
        2_500,
        low=100,
        about="in front of a RocketMQ cluster: how long a broker may take to answer; what it may store has a minute",
    )
    snodes: str = text(
        "",
        about="other Snodes before the same RocketMQ cluster, which share groups with this one",
        allowed="HOST:PORT[,HOST:PORT]",
    )
    find_snodes: bool = flag(
        True, about="find those through the name servers, and be found there: KV settings in PENSTOCK_SNODES"
    )
    rocketmq_broker_ports: str = text(
        "",
        about="before a RocketMQ cluster: the port of each broker, for clients that name none (Go, C++, Java before "
        "4.9.5, ali-ons); without it the node chooses one before several brokers",
        allowed="NAME=PORT, …",
    )
    rocketmq_accounts: str | None = secret(
        about="accounts of RocketMQ's clients, KEY:SECRET,KEY:SECRET; with some, every request has to be signed"
    )
    sign_as_clients: bool = flag(
        True,
        about="in front of a RocketMQ cluster: clients' requests go on in their own names, which brokers then need",
    )
    rocketmq_flow_requests: str = text(
        "", about="RocketMQ requests let in a second, by code: overall=10000,310=500", allowed="code=number, …"
    )
    rocketmq_flow_kilobytes: str = text(
        "", about="the same for the size of their bodies in KiB: 310=5000", allowed="code=number, …"
    )
    delay_scale_percent: int = number(
        100, low=0, high=100, about="how long RocketMQ's delay levels take, of what they say; less is for tests"
    )

    def __post_init__(self) -> None:
        check(self)
        _ = self.other_snodes(), self.accounts, self.flow_requests, self.flow_kilobytes, self.broker_ports

    def other_snodes(self) -> tuple[Endpoint, ...]:
        """``snodes``, taken apart. Raises ConfigError."""
        return parse_endpoints(self.snodes, lambda: None)

    @property
    def broker_ports(self) -> Mapping[str, int]:
        """``rocketmq_broker_ports``, one by one. Raises ConfigError."""
        return ports_of("rocketmq_broker_ports", self.rocketmq_broker_ports)

    @property
    def side_ports(self) -> Mapping[str, Sequence[int]]:
        """``penstock.config.snode.SidePorts``."""
        return {"rocketmq": tuple(self.broker_ports.values())}

    @property
    def accounts(self) -> Mapping[str, str]:
        """``rocketmq_accounts``, one by one. Raises ConfigError."""
        return accounts_of("rocketmq_accounts", self.rocketmq_accounts or "")

    @property
    def flow_requests(self) -> Mapping[str, int]:
        """``rocketmq_flow_requests``, one by one. Raises ConfigError."""
        return limits_of("rocketmq_flow_requests", self.rocketmq_flow_requests)

    @property
    def flow_kilobytes(self) -> Mapping[str, int]:
        """``rocketmq_flow_kilobytes``, one by one. Raises ConfigError."""
        return limits_of("rocketmq_flow_kilobytes", self.rocketmq_flow_kilobytes)
