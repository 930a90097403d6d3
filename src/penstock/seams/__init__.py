"""The seams: interfaces between layers, and the small data types that cross them.

A protocol's client is written against ``Channel``; a protocol's front against ``Runtime`` and the node's services;
services against ``Enode``; the engine (Consumer, Producer) against ``LogClient``, the range reader against
``RangeSource``. All that does anything here is what every protocol does the same (``Retry``, ``ChannelRelay``).
"""

from penstock.seams.abilities import Abilities
from penstock.seams.admin import AdminClient, GroupDescription, GroupListing, GroupListings, GroupMember, NewTopic
from penstock.seams.channel import Channel, Connection, Dialect, Link, Outgoing, Pending
from penstock.seams.client import (
    Avoids,
    BatchLog,
    BatchMembership,
    Beat,
    Beats,
    Fetched,
    FoundOffset,
    GroupOptions,
    LogClient,
    Membership,
    NamesTopics,
    Packed,
    Pulled,
    ReadFrom,
    ReadLimits,
    ReadsAtOnce,
    Sender,
    SendsAtOnce,
    Sent,
    TellsTruncation,
    Verdict,
)
from penstock.seams.enode import (
    Appended,
    Budget,
    Enode,
    Extent,
    FetchPart,
    Place,
    Room,
    TopicState,
    Writer,
    extent,
    fetch_one,
)
from penstock.seams.framing import Buffer, Buffers, Frame, Framing, Pieces, Stretch, joined
from penstock.seams.front import Front, Peer, Session
from penstock.seams.locks import Locks
from penstock.seams.node import NodeIdentity, Offsets, Services
from penstock.seams.offsets import OffsetsCodec, Replayed
from penstock.seams.opening import EnodeIdentity, OpenedEnode, OpenEnode, Surroundings
from penstock.seams.protocol import ChannelFactory, OpenClient, OpenFront, WireProtocol
from penstock.seams.ranges import RangeLimits, RangeSource
from penstock.seams.relay import ChannelRelay, Relay
from penstock.seams.retry import Retry, RetryLimits
from penstock.seams.runtime import Promise, Runtime, Timer
from penstock.seams.sending_back import SendsBack
from penstock.seams.transactions import TransactionalClient, TransactionalSender

__all__ = [
    "Abilities",
    "AdminClient",
    "Appended",
    "Avoids",
    "BatchLog",
    "BatchMembership",
    "Beat",
    "Beats",
    "Budget",
    "Buffer",
    "Buffers",
    "Channel",
    "ChannelFactory",
    "ChannelRelay",
    "Connection",
    "Dialect",
    "Enode",
    "EnodeIdentity",
    "Extent",
    "FetchPart",
    "Fetched",
    "FoundOffset",
    "Frame",
    "Framing",
    "Front",
    "GroupDescription",
    "GroupListing",
    "GroupListings",
    "GroupMember",
    "GroupOptions",
    "Link",
    "Locks",
    "LogClient",
    "Membership",
    "NamesTopics",
    "NewTopic",
    "NodeIdentity",
    "Offsets",
    "OffsetsCodec",
    "OpenClient",
    "OpenEnode",
    "OpenFront",
    "OpenedEnode",
    "Outgoing",
    "Packed",
    "Peer",
    "Pending",
    "Pieces",
    "Place",
    "Promise",
    "Pulled",
    "RangeLimits",
    "RangeSource",
    "ReadFrom",
    "ReadLimits",
    "ReadsAtOnce",
    "Relay",
    "Replayed",
    "Retry",
    "RetryLimits",
    "Room",
    "Runtime",
    "Sender",
    "SendsAtOnce",
    "SendsBack",
    "Sent",
    "Services",
    "Session",
    "Stretch",
    "Surroundings",
    "TellsTruncation",
    "Timer",
    "TopicState",
    "TransactionalClient",
    "TransactionalSender",
    "Verdict",
    "WireProtocol",
    "Writer",
    "extent",
    "fetch_one",
    "joined",
]
