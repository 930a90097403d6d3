"""The seams: interfaces between layers, and the small data types that cross them.

A protocol's client is written against ``Channel``; a protocol's front against ``Runtime`` and the node's services;
services against ``Enode``; the engine (Consumer, Producer) against ``LogClient``. Nothing here does anything.
"""

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
    RangeRead,
    ReadFrom,
    ReadLimits,
    Sender,
    Sent,
    TellsTruncation,
    Verdict,
)
from penstock.seams.framing import Buffer, Buffers, Frame, Framing, Pieces, Stretch, joined
from penstock.seams.front import Front, Peer, Session
from penstock.seams.node import Appended, Enode, LogPart, LogSlice, NodeIdentity, Offsets, Services, TopicState, Writer
from penstock.seams.offsets import OffsetsCodec, Replayed
from penstock.seams.protocol import ChannelFactory, OpenClient, OpenFront, WireProtocol
from penstock.seams.runtime import Promise, Runtime, Timer
from penstock.seams.transactions import TransactionalClient, TransactionalSender

__all__ = [
    "AdminClient",
    "Appended",
    "Avoids",
    "BatchLog",
    "BatchMembership",
    "Beat",
    "Beats",
    "Buffer",
    "Buffers",
    "Channel",
    "ChannelFactory",
    "Connection",
    "Dialect",
    "Enode",
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
    "LogClient",
    "LogPart",
    "LogSlice",
    "Membership",
    "NamesTopics",
    "NewTopic",
    "NodeIdentity",
    "Offsets",
    "OffsetsCodec",
    "OpenClient",
    "OpenFront",
    "Outgoing",
    "Packed",
    "Peer",
    "Pending",
    "Pieces",
    "Promise",
    "Pulled",
    "RangeRead",
    "ReadFrom",
    "ReadLimits",
    "Replayed",
    "Runtime",
    "Sender",
    "Sent",
    "Services",
    "Session",
    "Stretch",
    "TellsTruncation",
    "Timer",
    "TopicState",
    "TransactionalClient",
    "TransactionalSender",
    "Verdict",
    "WireProtocol",
    "Writer",
    "joined",
]
