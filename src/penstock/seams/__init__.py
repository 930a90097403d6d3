"""The seams: interfaces between layers, and the small data types that cross them.

A protocol's client is written against ``Channel``; a protocol's front against ``Runtime`` and the node's services;
services against ``Enode``; the engine (Consumer, Producer) against ``LogClient``, the range reader against
``RangeSource``. All that does anything here is what every protocol does the same (``Retry``, ``ChannelRelay``).

Names are loaded when they are first asked for, as those of `penstock` are: a client does without what only nodes need.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.seams.abilities import Abilities as Abilities
    from penstock.seams.admin import AdminClient as AdminClient
    from penstock.seams.admin import DescribesMany as DescribesMany
    from penstock.seams.admin import GroupDescription as GroupDescription
    from penstock.seams.admin import GroupDescriptions as GroupDescriptions
    from penstock.seams.admin import GroupListing as GroupListing
    from penstock.seams.admin import GroupListings as GroupListings
    from penstock.seams.admin import GroupMember as GroupMember
    from penstock.seams.admin import NewTopic as NewTopic
    from penstock.seams.admin import TopicSetting as TopicSetting
    from penstock.seams.channel import Channel as Channel
    from penstock.seams.channel import Connection as Connection
    from penstock.seams.channel import Dialect as Dialect
    from penstock.seams.channel import Link as Link
    from penstock.seams.channel import Outgoing as Outgoing
    from penstock.seams.channel import Pending as Pending
    from penstock.seams.client import Avoids as Avoids
    from penstock.seams.client import BatchLog as BatchLog
    from penstock.seams.client import BatchMembership as BatchMembership
    from penstock.seams.client import Beats as Beats
    from penstock.seams.client import DecodesInPieces as DecodesInPieces
    from penstock.seams.client import Fetched as Fetched
    from penstock.seams.client import FoundOffset as FoundOffset
    from penstock.seams.client import GoesRound as GoesRound
    from penstock.seams.client import HasHead as HasHead
    from penstock.seams.client import KnowsTopicIds as KnowsTopicIds
    from penstock.seams.client import LogClient as LogClient
    from penstock.seams.client import Membership as Membership
    from penstock.seams.client import NamesTopics as NamesTopics
    from penstock.seams.client import Packed as Packed
    from penstock.seams.client import Pulled as Pulled
    from penstock.seams.client import ReadFrom as ReadFrom
    from penstock.seams.client import ReadLimits as ReadLimits
    from penstock.seams.client import ReadsAgain as ReadsAgain
    from penstock.seams.client import ReadsAtOnce as ReadsAtOnce
    from penstock.seams.client import Sender as Sender
    from penstock.seams.client import SendsAtOnce as SendsAtOnce
    from penstock.seams.client import Sent as Sent
    from penstock.seams.client import TellsTruncation as TellsTruncation
    from penstock.seams.enode import Appended as Appended
    from penstock.seams.enode import Budget as Budget
    from penstock.seams.enode import Enode as Enode
    from penstock.seams.enode import Extent as Extent
    from penstock.seams.enode import FetchPart as FetchPart
    from penstock.seams.enode import Place as Place
    from penstock.seams.enode import Room as Room
    from penstock.seams.enode import TopicState as TopicState
    from penstock.seams.enode import Writer as Writer
    from penstock.seams.enode import extent as extent
    from penstock.seams.enode import fetch_one as fetch_one
    from penstock.seams.finding import FindsRecords as FindsRecords
    from penstock.seams.framing import Buffer as Buffer
    from penstock.seams.framing import Buffers as Buffers
    from penstock.seams.framing import Frame as Frame
    from penstock.seams.framing import Framing as Framing
    from penstock.seams.framing import Pieces as Pieces
    from penstock.seams.framing import Stretch as Stretch
    from penstock.seams.framing import joined as joined
    from penstock.seams.front import Front as Front
    from penstock.seams.front import Peer as Peer
    from penstock.seams.front import Session as Session
    from penstock.seams.kept_offsets import KeepsOffsetsHere as KeepsOffsetsHere
    from penstock.seams.kept_offsets import OffsetsFile as OffsetsFile
    from penstock.seams.lending import LendsReads as LendsReads
    from penstock.seams.lending import LentRead as LentRead
    from penstock.seams.locks import Locks as Locks
    from penstock.seams.member_abilities import CommitHeard as CommitHeard
    from penstock.seams.member_abilities import CommitRest as CommitRest
    from penstock.seams.member_abilities import CommitsAtOnce as CommitsAtOnce
    from penstock.seams.member_abilities import HasEpoch as HasEpoch
    from penstock.seams.member_abilities import MatchesPatterns as MatchesPatterns
    from penstock.seams.membership import Beat as Beat
    from penstock.seams.membership import Dropped as Dropped
    from penstock.seams.membership import GroupOptions as GroupOptions
    from penstock.seams.membership import Verdict as Verdict
    from penstock.seams.node import NodeIdentity as NodeIdentity
    from penstock.seams.node import Offsets as Offsets
    from penstock.seams.node import Services as Services
    from penstock.seams.offsets import CommittedUntil as CommittedUntil
    from penstock.seams.offsets import OffsetsCodec as OffsetsCodec
    from penstock.seams.offsets import Replayed as Replayed
    from penstock.seams.opening import EnodeIdentity as EnodeIdentity
    from penstock.seams.opening import OpenedEnode as OpenedEnode
    from penstock.seams.opening import OpenEnode as OpenEnode
    from penstock.seams.opening import Surroundings as Surroundings
    from penstock.seams.protocol import ChannelFactory as ChannelFactory
    from penstock.seams.protocol import OpenClient as OpenClient
    from penstock.seams.protocol import OpenFront as OpenFront
    from penstock.seams.protocol import WireProtocol as WireProtocol
    from penstock.seams.ranges import RangeLimits as RangeLimits
    from penstock.seams.ranges import RangeSource as RangeSource
    from penstock.seams.rebalances import Rebalance as Rebalance
    from penstock.seams.rebalances import RebalanceCause as RebalanceCause
    from penstock.seams.rebalances import RebalanceEnding as RebalanceEnding
    from penstock.seams.rebalances import RebalanceMove as RebalanceMove
    from penstock.seams.rebalances import RebalanceReason as RebalanceReason
    from penstock.seams.relay import ChannelRelay as ChannelRelay
    from penstock.seams.relay import Relay as Relay
    from penstock.seams.replicas import HasReplicas as HasReplicas
    from penstock.seams.replicas import HearsOfMoves as HearsOfMoves
    from penstock.seams.retry import Retry as Retry
    from penstock.seams.retry import RetryLimits as RetryLimits
    from penstock.seams.runtime import Promise as Promise
    from penstock.seams.runtime import Runtime as Runtime
    from penstock.seams.runtime import Timer as Timer
    from penstock.seams.sending_back import SendsBack as SendsBack
    from penstock.seams.transactions import AnswerCheck as AnswerCheck
    from penstock.seams.transactions import AnswersChecks as AnswersChecks
    from penstock.seams.transactions import TransactionalClient as TransactionalClient
    from penstock.seams.transactions import TransactionalSender as TransactionalSender

_HOME_OF = {
    name: home
    for home, names in {
        "abilities": "Abilities",
        "admin": (
            "AdminClient DescribesMany GroupDescription GroupDescriptions GroupListing GroupListings GroupMember "
            "NewTopic TopicSetting"
        ),
        "rebalances": "Rebalance RebalanceCause RebalanceEnding RebalanceMove RebalanceReason",
        "channel": "Channel Connection Dialect Link Outgoing Pending",
        "lending": "LendsReads LentRead",
        "client": (
            "Avoids BatchLog BatchMembership Beats DecodesInPieces Fetched FoundOffset GoesRound HasHead KnowsTopicIds "
            "LogClient Membership NamesTopics Packed Pulled ReadFrom ReadLimits ReadsAgain ReadsAtOnce Sender "
            "SendsAtOnce Sent TellsTruncation"
        ),
        "enode": "Appended Budget Enode Extent FetchPart Place Room TopicState Writer extent fetch_one",
        "framing": "Buffer Buffers Frame Framing Pieces Stretch joined",
        "front": "Front Peer Session",
        "kept_offsets": "KeepsOffsetsHere OffsetsFile",
        "locks": "Locks",
        "member_abilities": "CommitHeard CommitRest CommitsAtOnce HasEpoch MatchesPatterns",
        "membership": "Beat Dropped GroupOptions Verdict",
        "node": "NodeIdentity Offsets Services",
        "offsets": "CommittedUntil OffsetsCodec Replayed",
        "opening": "EnodeIdentity OpenedEnode OpenEnode Surroundings",
        "protocol": "ChannelFactory OpenClient OpenFront WireProtocol",
        "ranges": "RangeLimits RangeSource",
        "relay": "ChannelRelay Relay",
        "replicas": "HasReplicas HearsOfMoves",
        "retry": "Retry RetryLimits",
        "runtime": "Promise Runtime Timer",
        "finding": "FindsRecords",
        "sending_back": "SendsBack",
        "transactions": "AnswerCheck AnswersChecks TransactionalClient TransactionalSender",
    }.items()
    for name in names.split()
}

__all__ = [*_HOME_OF]  # noqa: PLE0604 - the keys are strings


def __getattr__(name: str) -> object:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value: object = getattr(import_module(f"penstock.seams.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
