"""Shared: the parts of one client that all its uses share, put together once."""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import field
from typing import Any, TypeVar

from penstock._dataclasses import dataclass
from penstock.model import Endpoint
from penstock.protocols.rocketmq.client.asked import Heard
from penstock.protocols.rocketmq.client.calls import Calls
from penstock.protocols.rocketmq.client.local_offsets import LocalOffsets
from penstock.protocols.rocketmq.client.name_servers import NameServers
from penstock.protocols.rocketmq.client.options import RocketOptions
from penstock.protocols.rocketmq.client.topics import Topics
from penstock.seams.channel import Channel

__all__ = ["Shared", "share"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Shared:
    """One client's. ``id`` is what brokers call it, ``local`` where a broadcasting member stands,
    ``shown`` are groups that it has made known, ``tried`` the brokers
    that take its filter."""

    channel: Channel[None]
    options: RocketOptions
    calls: Calls
    names: NameServers
    topics: Topics
    heard: Heard
    id: str
    local: LocalOffsets = field(default_factory=LocalOffsets)
    shown: set[str] = field(default_factory=set)
    tried: set[Endpoint] = field(default_factory=set)

    async def together(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T]:
        """Run all side by side; their results, or the first one's error."""
        found: list[T] = []
        for outcome in await self.channel.gather(work):
            if isinstance(outcome, BaseException):
                raise outcome
            found.append(outcome)
        return found


def share(channel: Channel[None], names: Sequence[Endpoint], options: RocketOptions, heard: Heard) -> Shared:
    """Make the parts. Nothing is connected. Raises ConfigError."""
    calls = Calls(channel, options)
    at_names = NameServers(calls, names)
    instance = options.rocket.instance_name or f"{int(channel.random() * 2**48):012x}"
    return Shared(channel, options, calls, at_names, Topics(calls, at_names), heard, f"{options.client_id}@{instance}")
