"""Shared: the parts of one client that all its uses share, put together once."""

from __future__ import annotations

from collections.abc import Sequence

from penstock._dataclasses import dataclass
from penstock.interfaces.channel import Channel
from penstock.model import Endpoint
from penstock.protocols.tubemq.client.brokers import Brokers
from penstock.protocols.tubemq.client.calls import Calls
from penstock.protocols.tubemq.client.identity import Identity
from penstock.protocols.tubemq.client.masters import Masters
from penstock.protocols.tubemq.client.options import TubeOptions
from penstock.protocols.tubemq.client.placements import Placements
from penstock.protocols.tubemq.client.publisher import Publisher
from penstock.protocols.tubemq.client.topics import Topics

__all__ = ["Shared", "share"]


@dataclass(frozen=True, slots=True)
class Shared:
    """One client's."""

    channel: Channel[None]
    options: TubeOptions
    calls: Calls
    identity: Identity
    masters: Masters
    brokers: Brokers
    placements: Placements
    publisher: Publisher
    topics: Topics


def share(channel: Channel[None], masters: Sequence[Endpoint], options: TubeOptions) -> Shared:
    """Make the parts. Nothing is connected. Raises ConfigError."""
    calls = Calls(channel, options)
    identity = Identity(channel, options)
    at_masters = Masters(calls, masters)
    placements = Placements(channel, options.metadata_max_age_ms, tls=options.tls)
    publisher = Publisher(channel, at_masters, identity, placements, options)
    topics = Topics(channel, at_masters, identity, placements, publisher, options)
    return Shared(
        channel, options, calls, identity, at_masters, Brokers(calls, identity), placements, publisher, topics
    )
