"""What a name server knows: which nodes there are, where they are reached, and how many partitions each keeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from penstock.model import Endpoint


@dataclass(slots=True)
class Registered:
    endpoint: Endpoint
    topics: dict[str, int]


@dataclass(slots=True)
class Routes:
    """A node that is away stays listed, as a RocketMQ broker does for two minutes: its partitions are still there."""

    nodes: dict[str, Registered] = field(default_factory=dict)

    def register(self, name: str, endpoint: Endpoint, topics: dict[str, int]) -> None:
        self.nodes[name] = Registered(endpoint, topics)

    def said(self) -> dict[str, Any]:
        return {
            name: {"host": node.endpoint.host, "port": node.endpoint.port, "topics": node.topics}
            for name, node in sorted(self.nodes.items())
        }
