"""What Snodes of one cluster tell each other: who is connected to whom. A request of penstock's own, and its answer.

Words are about one Snode each, whoever says them: its id is another one with each start, and its version grows with
each change, so that the higher version is the newer one wherever it came from.
"""

from __future__ import annotations

from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.messages.declare import Int32, Int64
from penstock.protocols.rocketmq.messages.membership import SubscriptionData

__all__ = ["AskPeer", "PeerGroup", "PeerMember", "PeerWords", "TellPeer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerMember:
    """A client in a group; ``address``: where it connected from."""

    client_id: str
    language: str = ""
    version: Int32 = 0
    address: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerGroup:
    """One group at one Snode, as of that Snode's ``version``; ``kind`` is consumer or producer.

    ``left``: clients that took leave there (35) a while ago, so that nobody takes them for members whose Snode died.
    Without members it says that the group is not there any more.
    """

    kind: str
    name: str
    version: Int64
    members: tuple[PeerMember, ...] = ()
    left: tuple[str, ...] = ()
    subscriptions: tuple[SubscriptionData, ...] = ()
    consume_type: str = ""
    message_model: str = ""
    consume_from_where: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerWords:
    """One Snode. ``beat`` grows while it lives; ``silent_ms``: for how long it had not when this was said.

    ``groups`` are those that changed since the version that was asked for, or with ``whole`` all that there are.
    """

    id: str
    name: str
    beat: Int64
    version: Int64
    silent_ms: Int64 = 0
    whole: bool = False
    groups: tuple[PeerGroup, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class AskPeer:
    """Who asks, which versions of whom it knows, of whom it hears better itself, how long it would wait for news."""

    id: str
    name: str = ""
    known: dict[str, Int64] = field(default_factory=dict)
    heard: tuple[str, ...] = ()
    hold_ms: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TellPeer:
    """Who answers, and what it knows, of itself first."""

    id: str
    words: tuple[PeerWords, ...] = ()
