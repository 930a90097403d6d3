"""What all uses of one client share, put together once; with what brokers ask of members, and offsets kept in files."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Coroutine, Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from penstock._dataclasses import dataclass
from penstock.config.client import ClientLog
from penstock.errors import ConfigError, PenstockError, ProtocolViolation
from penstock.interfaces.channel import Channel, Connection
from penstock.model import Committed, Endpoint, Partition
from penstock.protocols.rocketmq.client.cluster import Calls, NameServers, RocketOptions, Topics
from penstock.protocols.rocketmq.config import MessageModel
from penstock.protocols.rocketmq.errors import Code
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.lenient_json import MAX_JSON_BYTES
from penstock.protocols.rocketmq.wire.messages import MessageQueue
from penstock.protocols.rocketmq.wire.rpc import (
    CHECK_TRANSACTION_STATE,
    CONSUME_MESSAGE_DIRECTLY,
    GET_CONSUMER_RUNNING_INFO,
    GET_CONSUMER_STATUS_FROM_CLIENT,
    NOTIFY_CONSUMER_IDS_CHANGED,
    RESET_CONSUMER_CLIENT_OFFSET,
    read_request,
)

if TYPE_CHECKING:
    from penstock.interfaces.extensions import OffsetsFile

__all__ = [
    "Heard",
    "LocalOffsets",
    "Resets",
    "Shared",
    "Telling",
    "Tells",
    "partition_of",
    "path_of",
    "queue_of",
    "share",
]


# A partition as bodies of requests and answers name it, and back: topic, broker's name, number.
def queue_of(partition: Partition) -> MessageQueue:
    """The queue that is this partition."""
    return MessageQueue(topic=partition.topic, broker_name=partition.node, queue_id=partition.id)


def partition_of(queue: MessageQueue) -> Partition:
    """The partition that is this queue."""
    return Partition(queue.topic, queue.queue_id, queue.broker_name)


# Where a broadcasting member has got to: in a file of its machine, in the form that Java's clients read and write.
#
# Without a file it is nowhere: such a member begins anew each time. Source: Apache RocketMQ 4.9 and 5.4,
# ``LocalFileOffsetStore``.
_LOG: Final = ClientLog("penstock.group")
_UNNAMED: Final = "DEFAULT"
"""What Java calls the instance of a broadcasting member that was given no name."""


def path_of(options: RocketOptions) -> str | None:
    """The file; None where offsets are kept by brokers, or nowhere."""
    rocket = options.rocket
    if options.group is None or rocket.message_model is not MessageModel.BROADCASTING or not rocket.offsets_folder:
        return None
    member = f"{options.client_id}@{rocket.instance_name or _UNNAMED}".replace("/", "_").replace("\\", "_")
    return f"{rocket.offsets_folder}/{member}/{options.group}/offsets.json"


class LocalOffsets:
    """Of one client. ``file`` is set before anything is asked, if there is one."""

    def __init__(self) -> None:
        self.file: OffsetsFile | None = None
        self._known: dict[Partition, Committed] | None = None
        self._told = False

    async def committed(self, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """Where the member stands, of ``partitions`` (None: of all). Raises ConfigError."""
        known = await self._table()
        return known if partitions is None else {each: known[each] for each in partitions if each in known}

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Write them down with all others. Raises ConfigError."""
        if self.file is None:
            self._tell()
            return
        known = {**await self._table(), **offsets}
        table = {
            queue_of(each): at.offset
            for each, at in sorted(known.items(), key=lambda pair: (pair[0].topic, pair[0].node, pair[0].id))
        }
        await self.file.save(m.write_body(m.LocalOffsets(offset_table=table)))
        self._known = known

    def close(self) -> None:
        """Let another member have the file."""
        if self.file is not None:
            self.file.close()

    async def _table(self) -> dict[Partition, Committed]:
        if self._known is None:
            content = None if self.file is None else await self.file.load()
            self._known = {} if content is None else _read(content)
        return self._known

    def _tell(self) -> None:
        if not self._told:
            self._told = True
            _LOG.warning("what a broadcasting member commits is kept nowhere: name a folder in offsets_folder")


def _read(content: bytes) -> dict[Partition, Committed]:
    """Raises ConfigError for a file that is none: beginning anew would pass over what was not read yet."""
    try:
        table = m.read_body(m.LocalOffsets, content, max_bytes=4 * MAX_JSON_BYTES).offset_table
    except ProtocolViolation as error:
        raise ConfigError(
            f"the file of this member's offsets cannot be read: {error}",
            hint="Put offsets.json.bak, which lies beside it, into its place, or delete it to begin anew",
        ) from error
    return {partition_of(queue): Committed(offset) for queue, offset in table.items()}


# Resets: an operator put a group elsewhere (mqadmin resetOffsetByTime) while its members read.
#
# A broker tells members where each queue goes on (220), or, of 5.x, answers a pull with the new place and forgets it.
# It writes nothing itself in the first case, and in both whatever a member commits would undo it. So the member commits
# the new place, drops the queue without committing where it was, and gets it anew in the next round: until it has asked
# where to begin, its commits of that queue are for the place before and are not passed on. Source: Apache RocketMQ 4.9
# and 5.4, ``MQClientInstance.resetOffset``, ``PullMessageProcessor``.


_MOST: Final = 100_000


class Resets:
    """Of one client, whose groups are known by name."""

    def __init__(self) -> None:
        self._due: dict[tuple[str, Partition], int] = {}
        self._gone: set[tuple[str, Partition]] = set()

    def told(self, asked: RemotingCommand) -> None:
        """A broker's 220. What cannot be read is none."""
        try:
            header = read_request(RESET_CONSUMER_CLIENT_OFFSET, asked)
            table = m.read_body(m.ResetOffset, asked.body).offset_table
        except PenstockError:
            return
        for queue, offset in table.items():
            self.note(header.group, partition_of(queue), offset)

    def note(self, group: str, partition: Partition, offset: int) -> None:
        """The group goes on at ``offset``."""
        if len(self._due) < _MOST:
            self._due[group, partition] = offset

    def due(self, group: str, owned: Collection[Partition]) -> dict[Partition, int]:
        """Where the group is to go on, of what this member has; others see to the rest."""
        if not self._due:
            return {}
        mine = {partition: offset for (name, partition), offset in self._due.items() if name == group}
        for partition in mine.keys() - owned:
            del self._due[group, partition]
        return {partition: offset for partition, offset in mine.items() if partition in owned}

    def done(self, group: str, partitions: Collection[Partition]) -> None:
        """The new places are committed; what is committed of these from now on is of before."""
        for partition in partitions:
            self._due.pop((group, partition), None)
            self._gone.add((group, partition))

    def begins(self, group: str, partitions: Collection[Partition]) -> None:
        """Somebody asks where the group stands, to begin there."""
        if self._gone:
            self._gone -= {(group, partition) for partition in partitions}

    def standing(self, group: str, offsets: Mapping[Partition, T]) -> Mapping[Partition, T]:
        """What of these commits is not of before."""
        if not self._gone:
            return offsets
        return {partition: each for partition, each in offsets.items() if (group, partition) not in self._gone}


# What a member tells an operator of itself, when a broker hands the question on: 307, 221, 309.
#
# A member of ours polls, so there is no code of its application's to be handed a single message (309): it says so,
# where Java would have called it. Source: Apache RocketMQ 4.9 and 5.4, ``ConsumerRunningInfo``,
# ``ClientRemotingProcessor``.
_VERSION_NAME: Final = "V4_9_8"
_DIRECTLY: Final = "this member polls, so nothing can be handed to it directly: it reads the message from its queue"


class Tells(Protocol):
    """A member of a group."""

    @property
    def subscriptions(self) -> Collection[m.SubscriptionData]: ...

    @property
    def positions(self) -> Mapping[Partition, int]:
        """The queues that it has, and what it has committed last there; -1: nothing yet."""
        ...

    @property
    def orderly(self) -> bool: ...

    @property
    def began_ms(self) -> int: ...


class Telling:
    """Of one client, whose groups are known by name."""

    def __init__(self) -> None:
        self.members: dict[str, Tells] = {}

    def answer(self, asked: RemotingCommand) -> RemotingCommand | None:
        """The answer to a question of these; None for any other request."""
        try:
            if asked.code == GET_CONSUMER_RUNNING_INFO.code:
                return self._of(read_request(GET_CONSUMER_RUNNING_INFO, asked).consumer_group, _running)
            if asked.code == GET_CONSUMER_STATUS_FROM_CLIENT.code:
                return self._of(read_request(GET_CONSUMER_STATUS_FROM_CLIENT, asked).group, _status)
            if asked.code == CONSUME_MESSAGE_DIRECTLY.code:
                return RemotingCommand(Code.SYSTEM_ERROR, remark=_DIRECTLY)
        except PenstockError as error:
            return RemotingCommand(Code.SYSTEM_ERROR, remark=str(error))
        return None

    def _of(self, group: str, told: Said) -> RemotingCommand:
        member = self.members.get(group)
        if member is None:
            return RemotingCommand(Code.SYSTEM_ERROR, remark=f"The Consumer Group <{group}> not exist in this consumer")
        return RemotingCommand(Code.SUCCESS, body=m.write_body(told(member)))


class Said(Protocol):
    def __call__(self, member: Tells) -> object: ...


def _running(member: Tells) -> m.ConsumerRunningInfo:
    return m.ConsumerRunningInfo(
        properties={
            "PROP_CLIENT_VERSION": _VERSION_NAME,
            "PROP_CONSUMEORDERLY": str(member.orderly).lower(),
            "PROP_CONSUMER_START_TIMESTAMP": str(member.began_ms),
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
        },
        subscription_set=tuple(member.subscriptions),
        mq_table={
            queue_of(partition): m.ProcessQueueInfo(commit_offset=offset, locked=member.orderly)
            for partition, offset in member.positions.items()
        },
        status_table={each.topic: m.ConsumeStatus() for each in member.subscriptions},
    )


def _status(member: Tells) -> m.ConsumerStatus:
    return m.ConsumerStatus(
        message_queue_table={queue_of(partition): offset for partition, offset in member.positions.items()}
    )


# Asked: what brokers say of their own accord, written down for those whom it concerns.
#
# A group's members changed (40); what became of this transaction (39); a group's offsets were reset (220). What an
# operator asks members is above. Anything else is let pass, as Java's clients do with what they do not know.
# Source: Apache RocketMQ 4.9 and 5.4, ``ClientRemotingProcessor``.
_MOST_CHECKS: Final = 10_000


class Heard:
    """``noticed``: groups whose members changed. ``checks``: transactions that are asked about, and by which broker.
    ``resets``: groups that were put elsewhere. ``telling``: members that answer operators."""

    def __init__(self) -> None:
        self.noticed: set[str] = set()
        self.resets = Resets()
        self.telling = Telling()
        self.checks: deque[tuple[Endpoint, RemotingCommand]] = deque(maxlen=_MOST_CHECKS)

    def __call__(self, connection: Connection, asked: RemotingCommand) -> RemotingCommand | None:
        """Only what an operator asks is answered on the spot."""
        if asked.code == NOTIFY_CONSUMER_IDS_CHANGED.code:
            self.noticed.add(asked.fields.get("consumerGroup", ""))
        elif asked.code == CHECK_TRANSACTION_STATE.code:
            self.checks.append((connection.endpoint, asked))
        elif asked.code == RESET_CONSUMER_CLIENT_OFFSET.code:
            self.resets.told(asked)
        return self.telling.answer(asked)


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
