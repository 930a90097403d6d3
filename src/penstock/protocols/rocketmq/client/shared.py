"""Parts that all uses of one client share (`Shared`), and its responses to requests from brokers.

`Heard` receives the requests: `Resets` of a group's offsets, operators' questions (`Telling`), and notices.
`LocalOffsets` are a broadcasting member's offsets in a file.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from msgspec import Struct, field

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
    from penstock.interfaces.client import OffsetsFile

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


# Partitions in bodies: topic, broker's name, number.
def queue_of(partition: Partition) -> MessageQueue:
    """The queue of a partition."""
    return MessageQueue(topic=partition.topic, broker_name=partition.node, queue_id=partition.id)


def partition_of(queue: MessageQueue) -> Partition:
    """The partition of a queue."""
    return Partition(queue.topic, queue.queue_id, queue.broker_name)


# A broadcasting member's offsets: in a file on its machine, in the format of Java's clients. Without a file they are
# not kept, and each start begins anew. Source: Apache RocketMQ 4.9 and 5.4, ``LocalFileOffsetStore``.
_LOG: Final = ClientLog("penstock.group")
_UNNAMED: Final = "DEFAULT"
"""Java's name for the instance of a broadcasting member without one."""


def path_of(options: RocketOptions) -> str | None:
    """The path of the file; None if brokers keep the offsets, or if they are not kept."""
    rocket = options.rocket
    if options.group is None or rocket.message_model is not MessageModel.BROADCASTING or not rocket.offsets_folder:
        return None
    member = f"{options.client_id}@{rocket.instance_name or _UNNAMED}".replace("/", "_").replace("\\", "_")
    return f"{rocket.offsets_folder}/{member}/{options.group}/offsets.json"


class LocalOffsets:
    """One client's offsets. ``file`` is set before the first use, if there is one."""

    def __init__(self) -> None:
        self.file: OffsetsFile | None = None
        self._known: dict[Partition, Committed] | None = None
        self._warned = False

    async def committed(self, partitions: Collection[Partition] | None) -> Mapping[Partition, Committed]:
        """The offsets in ``partitions`` (None for all). Raises ConfigError."""
        known = await self._table()
        return known if partitions is None else {each: known[each] for each in partitions if each in known}

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        """Write the file with these and all other offsets. Raises ConfigError."""
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
        """Release the file for other members."""
        if self.file is not None:
            self.file.close()

    async def _table(self) -> dict[Partition, Committed]:
        if self._known is None:
            content = None if self.file is None else await self.file.load()
            self._known = {} if content is None else _read(content)
        return self._known

    def _tell(self) -> None:
        if not self._warned:
            self._warned = True
            _LOG.warning("what a broadcasting member commits is kept nowhere: name a folder in offsets_folder")


def _read(content: bytes) -> dict[Partition, Committed]:
    """The offsets in a file. Raises ConfigError for an invalid file: to begin anew would skip unread messages."""
    try:
        table = m.read_body(m.LocalOffsets, content, max_bytes=4 * MAX_JSON_BYTES).offset_table
    except ProtocolViolation as error:
        raise ConfigError(
            f"the file of this member's offsets cannot be read: {error}",
            hint="Put offsets.json.bak, in the same folder, into its place, or delete it to begin anew",
        ) from error
    return {partition_of(queue): Committed(offset) for queue, offset in table.items()}


# Resets: an operator changed a group's offsets (mqadmin resetOffsetByTime) while its members read.
#
# A broker sends the new offsets to members (220); one of 5.x may answer a pull with the new offset instead, and then
# forgets it. In the first case the broker stores nothing, and in both a member's next commit would undo the reset. So
# the member commits the new offset, drops the queue without committing its position, and gets it again in the next
# round. Until the member asks where to begin, its commits for that queue are from before the reset, and are dropped.
# Source: Apache RocketMQ 4.9 and 5.4, ``MQClientInstance.resetOffset``, ``PullMessageProcessor``.


_MOST: Final = 100_000


class Resets:
    """Resets of one client's groups, by name."""

    def __init__(self) -> None:
        self._due: dict[tuple[str, Partition], int] = {}
        self._gone: set[tuple[str, Partition]] = set()

    def reset(self, asked: RemotingCommand) -> None:
        """Take over a broker's 220; one that cannot be read is ignored."""
        try:
            header = read_request(RESET_CONSUMER_CLIENT_OFFSET, asked)
            table = m.read_body(m.ResetOffset, asked.body).offset_table
        except PenstockError:
            return
        for queue, offset in table.items():
            self.note(header.group, partition_of(queue), offset)

    def note(self, group: str, partition: Partition, offset: int) -> None:
        """The group has to continue at ``offset``."""
        if len(self._due) < _MOST:
            self._due[group, partition] = offset

    def due(self, group: str, owned: Collection[Partition]) -> dict[Partition, int]:
        """New offsets in this member's queues; those in other queues are dropped, other members handle them."""
        if not self._due:
            return {}
        mine = {partition: offset for (name, partition), offset in self._due.items() if name == group}
        for partition in mine.keys() - owned:
            del self._due[group, partition]
        return {partition: offset for partition, offset in mine.items() if partition in owned}

    def done(self, group: str, partitions: Collection[Partition]) -> None:
        """The new offsets are committed; the group's own commits in these partitions are dropped from now on."""
        for partition in partitions:
            self._due.pop((group, partition), None)
            self._gone.add((group, partition))

    def begins(self, group: str, partitions: Collection[Partition]) -> None:
        """The client asks where the group begins, so its later commits in these partitions count again."""
        if self._gone:
            self._gone -= {(group, partition) for partition in partitions}

    def standing(self, group: str, offsets: Mapping[Partition, T]) -> Mapping[Partition, T]:
        """These commits without those from before a reset."""
        if not self._gone:
            return offsets
        return {partition: each for partition, each in offsets.items() if (group, partition) not in self._gone}


# Operators' questions to a member, which brokers forward: 307, 221, 309.
#
# A member polls, so it has no callback that could be given a single message, as Java's have (309); the response says
# so. Source: Apache RocketMQ 4.9 and 5.4, ``ConsumerRunningInfo``, ``ClientRemotingProcessor``.
_VERSION_NAME: Final = "V4_9_8"
_DIRECTLY: Final = "this member polls, so nothing can be handed to it directly: it reads the message from its queue"


class Tells(Protocol):
    """What a member of a group can report."""

    @property
    def subscriptions(self) -> Collection[m.SubscriptionData]: ...

    @property
    def positions(self) -> Mapping[Partition, int]:
        """The member's queues and its last commit in each; -1 before the first one."""
        ...

    @property
    def orderly(self) -> bool: ...

    @property
    def began_ms(self) -> int: ...


class Telling:
    """Responses for one client's members, by group."""

    def __init__(self) -> None:
        self.members: dict[str, Tells] = {}

    def answer(self, asked: RemotingCommand) -> RemotingCommand | None:
        """The response to one of these questions; None for any other request."""
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

    def _of(self, group: str, report: Said) -> RemotingCommand:
        member = self.members.get(group)
        if member is None:
            return RemotingCommand(Code.SYSTEM_ERROR, remark=f"The Consumer Group <{group}> not exist in this consumer")
        return RemotingCommand(Code.SUCCESS, body=m.write_body(report(member)))


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


# Requests from brokers: a group's members changed (40), the outcome of a transaction is asked for (39), a group's
# offsets were reset (220), or an operator asks a member (above). Other requests are ignored, as Java's clients do.
# Source: Apache RocketMQ 4.9 and 5.4, ``ClientRemotingProcessor``.
_MOST_CHECKS: Final = 10_000


class Heard:
    """Collects brokers' requests for the parts that handle them. ``noticed``: groups whose members changed. ``checks``:
    questions about transactions, and the broker of each. ``resets``: groups with new offsets. ``telling``: members that
    answer operators."""

    def __init__(self) -> None:
        self.noticed: set[str] = set()
        self.resets = Resets()
        self.telling = Telling()
        self.checks: deque[tuple[Endpoint, RemotingCommand]] = deque(maxlen=_MOST_CHECKS)

    def __call__(self, connection: Connection, asked: RemotingCommand) -> RemotingCommand | None:
        """Receive a request; only operators' questions are answered right away."""
        if asked.code == NOTIFY_CONSUMER_IDS_CHANGED.code:
            self.noticed.add(asked.fields.get("consumerGroup", ""))
        elif asked.code == CHECK_TRANSACTION_STATE.code:
            self.checks.append((connection.endpoint, asked))
        elif asked.code == RESET_CONSUMER_CLIENT_OFFSET.code:
            self.resets.reset(asked)
        return self.telling.answer(asked)


T = TypeVar("T")


class Shared(Struct, frozen=True):
    """The shared parts of one client. ``id`` is its client id at brokers, ``local`` a broadcasting member's offsets,
    ``shown`` the groups whose retry topics it has created, ``tried`` the brokers that have accepted its filter."""

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
        """Run all concurrently; returns their results, or raises the first error."""
        found: list[T] = []
        for outcome in await self.channel.gather(work):
            if isinstance(outcome, BaseException):
                raise outcome
            found.append(outcome)
        return found


def share(channel: Channel[None], names: Sequence[Endpoint], options: RocketOptions, heard: Heard) -> Shared:
    """Make the parts, without a connection. Raises ConfigError."""
    calls = Calls(channel, options)
    at_names = NameServers(calls, names)
    instance = options.rocket.instance_name or f"{int(channel.random() * 2**48):012x}"
    return Shared(channel, options, calls, at_names, Topics(calls, at_names), heard, f"{options.client_id}@{instance}")
