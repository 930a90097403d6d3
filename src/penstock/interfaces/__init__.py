"""Interfaces between layers, and the small data types that cross them.

A protocol's client is written against `Channel`, its front against `Runtime` and the node's `Services`. Services use
`Enode`. The engine (Consumer, Producer) uses `LogClient`, and the range reader uses `RangeSource`. The few classes with
behaviour do what all protocols do alike (`Retry`, `ChannelRelay`).

Names are imported on first use, as in `penstock` itself, so that a client never loads what only nodes need.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.concurrency.locks import Locks as Locks
    from penstock.concurrency.runtime import Promise as Promise
    from penstock.concurrency.runtime import Runtime as Runtime
    from penstock.concurrency.runtime import Timer as Timer
    from penstock.interfaces.admin import AdminClient as AdminClient
    from penstock.interfaces.admin import GroupDescription as GroupDescription
    from penstock.interfaces.admin import GroupDescriptions as GroupDescriptions
    from penstock.interfaces.admin import GroupListing as GroupListing
    from penstock.interfaces.admin import GroupListings as GroupListings
    from penstock.interfaces.admin import GroupMember as GroupMember
    from penstock.interfaces.admin import NewTopic as NewTopic
    from penstock.interfaces.admin import Rebalance as Rebalance
    from penstock.interfaces.admin import RebalanceCause as RebalanceCause
    from penstock.interfaces.admin import RebalanceEnding as RebalanceEnding
    from penstock.interfaces.admin import RebalanceMove as RebalanceMove
    from penstock.interfaces.admin import RebalanceReason as RebalanceReason
    from penstock.interfaces.admin import TopicSetting as TopicSetting
    from penstock.interfaces.channel import Channel as Channel
    from penstock.interfaces.channel import Connection as Connection
    from penstock.interfaces.channel import Dialect as Dialect
    from penstock.interfaces.channel import Link as Link
    from penstock.interfaces.channel import Outgoing as Outgoing
    from penstock.interfaces.channel import Pending as Pending
    from penstock.interfaces.channel import Retry as Retry
    from penstock.interfaces.channel import RetryLimits as RetryLimits
    from penstock.interfaces.client import AnswerCheck as AnswerCheck
    from penstock.interfaces.client import BatchMembership as BatchMembership
    from penstock.interfaces.client import Beat as Beat
    from penstock.interfaces.client import CommitHeard as CommitHeard
    from penstock.interfaces.client import CommitRest as CommitRest
    from penstock.interfaces.client import DecodesInPieces as DecodesInPieces
    from penstock.interfaces.client import Dropped as Dropped
    from penstock.interfaces.client import Fetched as Fetched
    from penstock.interfaces.client import FoundOffset as FoundOffset
    from penstock.interfaces.client import GroupOptions as GroupOptions
    from penstock.interfaces.client import HasHead as HasHead
    from penstock.interfaces.client import LentRead as LentRead
    from penstock.interfaces.client import LogClient as LogClient
    from penstock.interfaces.client import Membership as Membership
    from penstock.interfaces.client import OffsetsFile as OffsetsFile
    from penstock.interfaces.client import Packed as Packed
    from penstock.interfaces.client import Pulled as Pulled
    from penstock.interfaces.client import RangeLimits as RangeLimits
    from penstock.interfaces.client import RangeSource as RangeSource
    from penstock.interfaces.client import ReadFrom as ReadFrom
    from penstock.interfaces.client import ReadLimits as ReadLimits
    from penstock.interfaces.client import Sender as Sender
    from penstock.interfaces.client import Sent as Sent
    from penstock.interfaces.client import TransactionalSender as TransactionalSender
    from penstock.interfaces.client import Verdict as Verdict
    from penstock.interfaces.enode import Abilities as Abilities
    from penstock.interfaces.enode import Appended as Appended
    from penstock.interfaces.enode import Budget as Budget
    from penstock.interfaces.enode import ChannelRelay as ChannelRelay
    from penstock.interfaces.enode import DiskSpace as DiskSpace
    from penstock.interfaces.enode import Enode as Enode
    from penstock.interfaces.enode import Extent as Extent
    from penstock.interfaces.enode import FetchPart as FetchPart
    from penstock.interfaces.enode import PartitionLocation as PartitionLocation
    from penstock.interfaces.enode import Relay as Relay
    from penstock.interfaces.enode import TopicState as TopicState
    from penstock.interfaces.enode import Writer as Writer
    from penstock.interfaces.enode import extent as extent
    from penstock.interfaces.enode import fetch_one as fetch_one
    from penstock.interfaces.framing import Buffer as Buffer
    from penstock.interfaces.framing import Buffers as Buffers
    from penstock.interfaces.framing import Frame as Frame
    from penstock.interfaces.framing import Framing as Framing
    from penstock.interfaces.framing import Pieces as Pieces
    from penstock.interfaces.framing import Stretch as Stretch
    from penstock.interfaces.framing import joined as joined
    from penstock.interfaces.front import Front as Front
    from penstock.interfaces.front import Peer as Peer
    from penstock.interfaces.front import Session as Session
    from penstock.interfaces.node import BackendContext as BackendContext
    from penstock.interfaces.node import CommittedUntil as CommittedUntil
    from penstock.interfaces.node import EnodeIdentity as EnodeIdentity
    from penstock.interfaces.node import NodeIdentity as NodeIdentity
    from penstock.interfaces.node import Offsets as Offsets
    from penstock.interfaces.node import OffsetsCodec as OffsetsCodec
    from penstock.interfaces.node import OpenedEnode as OpenedEnode
    from penstock.interfaces.node import OpenEnode as OpenEnode
    from penstock.interfaces.node import Replayed as Replayed
    from penstock.interfaces.node import Services as Services
    from penstock.interfaces.protocol import ChannelFactory as ChannelFactory
    from penstock.interfaces.protocol import OpenClient as OpenClient
    from penstock.interfaces.protocol import OpenFront as OpenFront
    from penstock.interfaces.protocol import WireProtocol as WireProtocol

_HOME_OF = {
    name: home
    for home, names in {
        "penstock.concurrency.locks": "Locks",
        "penstock.concurrency.runtime": "Promise Runtime Timer",
        "penstock.interfaces.admin": (
            "AdminClient GroupDescription GroupDescriptions GroupListing GroupListings GroupMember "
            "NewTopic Rebalance RebalanceCause RebalanceEnding RebalanceMove RebalanceReason TopicSetting"
        ),
        "penstock.interfaces.channel": "Channel Connection Dialect Link Outgoing Pending Retry RetryLimits",
        "penstock.interfaces.client": (
            "BatchMembership Beat CommitHeard CommitRest DecodesInPieces Dropped "
            "Fetched FoundOffset GroupOptions HasHead LentRead LogClient "
            "Membership Packed Pulled RangeLimits RangeSource ReadFrom ReadLimits "
            "Sender Sent Verdict AnswerCheck "
            "OffsetsFile "
            "TransactionalSender"
        ),
        "penstock.interfaces.enode": (
            "Abilities Appended Budget ChannelRelay DiskSpace Enode Extent FetchPart PartitionLocation Relay "
            "TopicState Writer extent fetch_one"
        ),
        "penstock.interfaces.framing": "Buffer Buffers Frame Framing Pieces Stretch joined",
        "penstock.interfaces.front": "Front Peer Session",
        "penstock.interfaces.node": (
            "CommittedUntil EnodeIdentity NodeIdentity Offsets OffsetsCodec OpenEnode OpenedEnode Replayed Services "
            "BackendContext"
        ),
        "penstock.interfaces.protocol": "ChannelFactory OpenClient OpenFront WireProtocol",
    }.items()
    for name in names.split()
}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
