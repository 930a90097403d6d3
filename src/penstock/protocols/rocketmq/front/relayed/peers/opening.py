"""From a node's services and options to its part among several Snodes."""

from __future__ import annotations

from typing import Final

from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.protocols.rocketmq.front.broker.groups import Clients
from penstock.protocols.rocketmq.front.options import RocketFrontOptions
from penstock.protocols.rocketmq.front.relayed.peers.exchange import SILENT_S, Peers
from penstock.protocols.rocketmq.front.relayed.peers.finding import Finding
from penstock.protocols.rocketmq.front.relayed.peers.union import Union
from penstock.seams.node import Services

__all__ = ["peers_of"]

_ID_BYTES: Final = 12


def peers_of(services: Services, options: RocketFrontOptions, relay: RocketRelay, clients: Clients) -> Peers:
    """Nothing is asked before `Peers.start`."""
    runtime = services.runtime
    union = Union(
        runtime.random_bytes(_ID_BYTES).hex(),
        timeout_s=options.client_timeout_ms / 1_000,
        silent_s=SILENT_S,
        most=options.max_clients,
        now=runtime.monotonic(),
    )
    finding = Finding(relay, options.peers, asks=options.finds_peers)
    return Peers(relay, clients, runtime, finding, union, services.identity)
