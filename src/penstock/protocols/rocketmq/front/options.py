"""What an operator may choose about the RocketMQ front. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.model import Endpoint

__all__ = ["RocketFrontOptions"]


@dataclass(frozen=True, slots=True, kw_only=True)
class RocketFrontOptions:
    """Defaults are RocketMQ's brokers' own where they have them.

    ``cluster``: the name of the cluster that clients are told. ``auto_create_topics``: a topic that a message is sent
    to is made, with as many queues as its producer wants, at most ``template_queues``.

    ``snode_name``: what the node is called among Snodes; empty: by its number and address. ``register_snode_ms``: how
    often a node before a cluster says at its name servers that it is a Snode; 0: never.

    ``client_timeout_ms``: without a heartbeat for so long a client is out of its groups; clients beat every 30 s.
    ``lock_timeout_ms``: a queue that an orderly consumer has locked is free again, unless locked anew.
    ``max_clients``: places of connections in groups, over all groups; ``max_locks``: queues that are locked at once;
    ``max_held``: pulls that wait for messages at once. One connection may have a twentieth of each, and one address
    ``address_share_percent``.

    ``housekeeping_ms``: how often it is looked who was silent. ``notify_members``: members are told who comes and goes;
    without that they find out when they look by themselves. ``auto_create_groups``: any name is a group; else only one
    that somebody has made (200), others are refused what brokers make groups for. ``producer_beat_ms``: how often
    brokers are told whose transactions they may ask about here.

    ``accounts``: access keys of clients and their secrets; where there are some, everybody has to sign.
    ``flow_requests`` and ``flow_kilobytes``: what is let in within a second (``flow``).

    ``transfer_messages`` and ``transfer_bytes``: the most that one answer to a pull carries; a single message that is
    larger is sent all the same. ``examined_messages``: so many are looked at, at most, for those that a filter wants.
    ``max_hold_ms``: a pull is held for as long as its client asks, at most so long.
    ``max_message_bytes``: a message's body as it is sent.

    ``retries``: so often a message that a group could not consume is delivered again. ``delay_scale``: what the waits
    of delay levels are multiplied with. ``check_every_ms``: how often half messages are looked at; their producer is
    asked about those older than ``transaction_timeout_ms``, ``transaction_checks`` times at most.
    ``max_under_way``: over real brokers, requests that they have not answered yet, over all clients; a held pull is
    one, and takes some 4 KB. ``peers``: where other Snodes of the cluster are; ``finds_peers``: name servers are asked
    for them, too, and told of this one. ``broker_ports``: where clients are told that a broker is; what comes there and
    names no broker is for that one.
    """

    cluster: str = "DefaultCluster"
    snode_name: str = ""
    register_snode_ms: int = 30_000
    auto_create_topics: bool = True
    template_queues: int = 8
    client_timeout_ms: int = 120_000
    lock_timeout_ms: int = 60_000
    max_clients: int = 20_000
    max_locks: int = 100_000
    max_held: int = 50_000
    address_share_percent: int = 50
    housekeeping_ms: int = 10_000
    notify_members: bool = True
    auto_create_groups: bool = True
    producer_beat_ms: int = 15_000
    accounts: Mapping[str, str] = field(default_factory=dict, repr=False)
    flow_requests: Mapping[str, int] = field(default_factory=dict)
    flow_kilobytes: Mapping[str, int] = field(default_factory=dict)
    transfer_messages: int = 32
    transfer_bytes: int = 256 << 10
    examined_messages: int = 800
    max_hold_ms: int = 60_000
    max_message_bytes: int = 4 << 20
    retries: int = 16
    delay_scale: float = 1.0
    max_under_way: int = 50_000
    check_every_ms: int = 10_000
    transaction_timeout_ms: int = 6_000
    transaction_checks: int = 15
    peers: tuple[Endpoint, ...] = ()
    finds_peers: bool = True
    broker_ports: Mapping[str, int] = field(default_factory=dict)
