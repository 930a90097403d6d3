"""The client's metadata of the cluster, and work that is sent to partition leaders.

`Cluster` has nodes, topics, leaders and their epochs; `LeaderEpochs` the epochs seen in a partition's log; `on_leaders`
sends requests to leaders and repeats them after leader changes; `find_offsets` asks for offsets by name or time.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar

from msgspec.structs import replace

from penstock.errors import (
    ConnectionLost,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    ServerError,
    TopicRecreated,
    UsageError,
    shown_id,
)
from penstock.interfaces.channel import Retry, Routing
from penstock.interfaces.client import FoundOffset
from penstock.model import Endpoint, Node, OffsetSpec, Partition, PartitionInfo, TopicInfo
from penstock.protocols.kafka.client.connection import Calls
from penstock.protocols.kafka.errors import NONE, error_for, row
from penstock.protocols.kafka.wire.declarations import NO_UUID
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
    MetadataResponseTopic,
)

__all__ = [
    "UNKNOWN",
    "Cluster",
    "LeaderEpochs",
    "NamedLeader",
    "NamedNode",
    "Stretch",
    "by_topic",
    "find_offsets",
    "note_error",
    "on_leaders",
]

# LeaderEpochs: the epochs in which a partition's records were written. They reveal that a log was truncated.
#
# A leader writes in its own epoch, and epochs only grow along a log. If a replica without all records becomes leader
# (an unclean election), it truncates the log and continues in a higher epoch: the offsets behind the cut then mean
# other records. A client that knows the epoch of the record before an offset can ask whether the log still has it
# (KIP-320).

UNKNOWN = -1


class Stretch(NamedTuple):
    """The offsets seen of one epoch: ``[start, end)``. A single point if only a position in the log is known."""

    epoch: int
    start: int
    end: int


class LeaderEpochs:
    """One partition's stretches, one per epoch, in the order of offsets, which is also that of epochs."""

    __slots__ = ("_stretches", "validated")

    def __init__(self) -> None:
        self._stretches: list[Stretch] = []
        self.validated = UNKNOWN
        """The epoch of the leader that was last asked whether its log was truncated."""

    def epoch_before(self, offset: int) -> int:
        """The epoch of the record before ``offset``; UNKNOWN if it was not seen."""
        for epoch, start, end in self._stretches:
            if start < offset <= end or start == offset == end:
                return epoch
        return UNKNOWN

    def saw(self, seen: Stretch) -> None:
        """Add records of the log. Stretches that contradict them are removed: they are from before a truncation."""
        if len(self._stretches) == 1:
            epoch, start, end = self._stretches[0]
            if epoch == seen.epoch:
                if end == seen.start and start <= end:  # the usual case: the next records
                    self._stretches[0] = Stretch(epoch, start, seen.end)
                else:
                    self._stretches[0] = Stretch(epoch, min(start, seen.start), max(end, seen.end))
                return
        kept = [_clear_of(each, seen) for each in self._stretches if each.epoch != seen.epoch]
        same = [each for each in self._stretches if each.epoch == seen.epoch]
        start, end = min(each.start for each in [seen, *same]), max(each.end for each in [seen, *same])
        self._stretches = [each for each in kept if each is not None]
        insort(self._stretches, Stretch(seen.epoch, start, end))

    def heard(self, epoch: int, offset: int) -> None:
        """Add a point: the log reached ``offset`` in ``epoch``. Ignored if it contradicts records that were seen."""
        for each in self._stretches:
            if (each.epoch < epoch and each.end > offset) or (each.epoch > epoch and each.start < offset):
                return
        self.saw(Stretch(epoch, offset, offset))

    def parted_at(self, epoch: int, end: int) -> int:
        """The offset at which the logs diverge.

        In the other log, the last epoch up to the requested one is ``epoch``, and it ends at ``end``.
        """
        return min([end, *(each.start for each in self._stretches if each.epoch > epoch)])

    def forget_after(self, epoch: int) -> None:
        """Forget all higher epochs."""
        self._stretches = [each for each in self._stretches if each.epoch <= epoch]


def _clear_of(old: Stretch, seen: Stretch) -> Stretch | None:
    """The part of ``old`` that does not contradict ``seen``, which has another epoch; None if nothing is left."""
    if old.epoch < seen.epoch:
        start, end = old.start, min(old.end, seen.start)
    else:
        start, end = max(old.start, seen.end), old.end
    gone = end < start or (end == start and old.start != old.end)
    return None if gone else Stretch(old.epoch, start, end)


# The metadata of the cluster: nodes, topics, leaders. A request that fails because of it triggers a refresh.
#
# Leader epochs never go backwards for the same topic id: a broker that lags behind must not overwrite another broker's
# newer answer (KIP-320). A broker that refuses a partition may name its leader (KIP-951), which counts like metadata.
# Source: Kafka protocol guide, Metadata v1-v13, Fetch v12-v18, Produce v10-v13.

Response = TypeVar("Response")

_MOMENT_S = 0.5
_UNKNOWN_TOPIC_OR_PARTITION = 3
_LEADER_NOT_AVAILABLE = 5
_INVALID_NAME = 17
_UNKNOWN_TOPIC_ID = 100
_ABSENT = frozenset((_UNKNOWN_TOPIC_OR_PARTITION, _INVALID_NAME, _UNKNOWN_TOPIC_ID))


class NamedLeader(Protocol):
    """CurrentLeader of a response."""

    @property
    def leader_id(self) -> int:
        """The node's id; -1 if none is named."""
        ...

    @property
    def leader_epoch(self) -> int:
        """The leader's epoch."""
        ...


class NamedNode(Protocol):
    """One of a response's NodeEndpoints."""

    @property
    def node_id(self) -> int:
        """The node's id."""
        ...

    @property
    def host(self) -> str:
        """Its host name or address."""
        ...

    @property
    def port(self) -> int:
        """Its port."""
        ...

    @property
    def rack(self) -> str | None:
        """Its rack; None if it has none."""
        ...


class Cluster:
    """The metadata of one client, and the choice of the node to ask."""

    def __init__(self, calls: Calls, bootstrap: Sequence[Endpoint]) -> None:
        self.calls = calls
        self._channel = calls.channel
        self._options = calls.options
        self._bootstrap = tuple(bootstrap)
        self.cluster_id = ""
        """The id in the last metadata; "" before the first."""
        self.changes = 0
        """Incremented whenever the metadata changes or a leader is distrusted."""
        self._nodes: dict[int, Node] = {}
        self._controller = -1
        self._topics: dict[str, TopicInfo] = {}
        self._names_by_id: dict[bytes, str] = {}
        self._leaders: dict[Partition, PartitionInfo] = {}
        self._lineages: dict[Partition, LeaderEpochs] = {}
        self._moved: set[Partition] = set()
        self._routing = Routing(calls.channel, calls.options.metadata_max_age_ms, self.known_leader)
        self.leader = self._routing.leader
        """The known leader; None after ``distrust`` until its topic's metadata is refreshed."""

    async def topics(self, names: Collection[str] | None, *, fresh: bool = False) -> dict[str, TopicInfo]:
        """Topics by name (None: all). Missing topics are left out. Raises ConnectionLost, ServerError."""
        if names is None:
            if fresh or self._routing.all_due():
                await self._refresh(None)
            return dict(self._topics)
        wanted = set(names) if fresh else self._routing.due(names)
        if wanted:
            await self._refresh(wanted)
        return {name: self._topics[name] for name in names if name in self._topics}

    async def topics_by_id(self, ids: Collection[bytes]) -> None:
        """Look up topics by id; an id without a topic stays unknown. Raises as `topics`."""
        asked = [MetadataRequestTopic(topic_id=each, name=None) for each in sorted(ids)]
        await self._ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), ())

    def at_hand(self, name: str) -> TopicInfo | None:
        """A topic from metadata that is recent and not distrusted; None if a request is needed."""
        return None if self._routing.due((name,)) else self._topics.get(name)

    async def find_leader(self, partition: Partition, what: str) -> Node:
        """The leader, asking brokers if necessary. Raises ServerError with the message ``what`` if there is none."""
        node = await self._routing.find(partition, self.topics)
        if node is None:
            raise self.no_leader(partition, what)
        return node

    def no_leader(self, partition: Partition, what: str) -> PenstockError:
        """The error for a partition without a leader, or for one that does not exist."""
        code = _UNKNOWN_TOPIC_OR_PARTITION if partition not in self._leaders else _LEADER_NOT_AVAILABLE
        return error_for(code, what, topic=partition.topic, partition=partition.id)

    def known_leader(self, partition: Partition) -> Node | None:
        """The leader in the last metadata, even if it is distrusted."""
        known = self._leaders.get(partition)
        return None if known is None else known.leader

    def leader_epoch(self, partition: Partition) -> int:
        """The epoch of that leader; -1 if unknown."""
        known = self._leaders.get(partition)
        return -1 if known is None else known.leader_epoch

    def lineage(self, partition: Partition) -> LeaderEpochs:
        """The epochs seen in the partition's log; reset when a new topic gets the name."""
        found = self._lineages.get(partition)
        if found is None:
            found = self._lineages[partition] = LeaderEpochs()
        return found

    def distrust(self, partition: Partition) -> None:
        """Distrust the partition's leader: the next use refreshes the metadata."""
        self.changes += 1
        self._moved.discard(partition)
        self._routing.distrust(partition)

    def named(self, partition: Partition, by: Node, leader: NamedLeader, nodes: Sequence[NamedNode]) -> bool:
        """Take over the leader that ``by`` named when it refused a request. Returns whether it can be used.

        The higher epoch wins. With an equal epoch only a different node's confirmation of the known leader counts. If a
        node refuses a partition and still claims to lead it, a metadata refresh is needed.
        """
        known = self._leaders.get(partition)
        result = {each.node_id: Node(str(each.node_id), Endpoint(each.host, each.port), each.rack) for each in nodes}
        node = result.get(leader.leader_id) or self._nodes.get(leader.leader_id)
        if known is None or node is None or leader.leader_epoch < known.leader_epoch:
            return False
        same_word = known.leader is not None and by.name != node.name == known.leader.name
        if leader.leader_epoch == known.leader_epoch and not same_word:
            return False
        self._nodes[leader.leader_id] = node
        self._tell(replace(known, leader=node, leader_epoch=leader.leader_epoch))
        self._routing.believe(partition)
        self._moved.add(partition)
        return True

    def moved(self, partition: Partition) -> bool:
        """Whether the last refusal named the new leader; see ``LogClient.moved``."""
        if partition not in self._moved:
            return False
        self._moved.discard(partition)
        return True

    def topic_id(self, name: str) -> bytes | None:
        """The id of a topic; None if it has none or is unknown."""
        topic = self._topics.get(name)
        return None if topic is None else topic.id

    async def refresh_recreated(self, ids: Iterable[tuple[str, bytes | None]]) -> None:
        """Refresh topics whose known ids differ from these: the cached metadata may be outdated."""
        differ = {name for name, each in ids if each is not None and self.topic_id(name) not in {None, each}}
        if differ:
            await self.topics(differ, fresh=True)

    def recreated(self, partition: Partition, offset: int, topic_id: bytes | None) -> TopicRecreated | None:
        """The error for an offset of a deleted topic whose name a new topic has; None if the ids do not show that."""
        if topic_id is None:
            return None
        known = self.topic_id(partition.topic)
        if known is None or known == topic_id:
            return None
        return TopicRecreated(
            f"the topic was deleted and created anew: this offset is of the old topic, id {shown_id(topic_id)}, and"
            f" means nothing in the one that has its name now, id {shown_id(known)}",
            old_id=topic_id,
            new_id=known,
            code=_UNKNOWN_TOPIC_ID,
            name="UNKNOWN_TOPIC_ID",
            topic=partition.topic,
            partition=partition.id,
            offset=offset,
            hint="Seek to where you want to begin in the new topic, or set auto_offset_reset to earliest or latest",
        )

    def topic_name(self, topic_id: bytes) -> str | None:
        """The name of a topic whose id is known."""
        return self._names_by_id.get(topic_id)

    def node(self, node_id: int) -> Node | None:
        """A node by its id."""
        return self._nodes.get(node_id)

    async def nodes(self) -> list[Node]:
        """All live nodes."""
        await self._refresh(frozenset())
        return list(self._nodes.values())

    async def controller(self) -> Endpoint:
        """The node for topic changes; with KRaft any node accepts them, and metadata names one of them."""
        await self._refresh(frozenset())
        node = self._nodes.get(self._controller)
        return self._candidates()[0] if node is None else node.endpoint

    async def ask_anyone(self, message: object, response: type[Response], *, at_most: int | None = None) -> Response:
        """Ask the least loaded node, then the others, in rounds, until one responds or the time is over.

        A node that does not respond is skipped after a short timeout, which doubles each round. A node that violates
        the protocol is skipped, too; its error is only raised if no other node could be asked.
        """
        retry = Retry(self._channel, self._options)
        within_s = _MOMENT_S
        while True:
            errors: list[PenstockError] = []
            candidates = self._candidates()
            for endpoint in candidates:
                limit_s = within_s if len(candidates) > 1 else None
                try:
                    return await self.calls.call(endpoint, message, response, at_most=at_most, within_s=limit_s)
                except (ConnectionLost, ProtocolViolation, RequestTimeout) as error:
                    errors.append(error)
            within_s *= 2
            nothing_left = ConnectionLost("there is no server to ask", hint="Give at least one bootstrap server.")
            await retry.after(max(reversed(errors), key=lambda error: error.retriable, default=nothing_left))

    def _candidates(self) -> list[Endpoint]:
        """Known nodes, the least loaded first, then the bootstrap servers, in case all known nodes have moved.

        In both parts, nodes that were unreachable a moment ago come last, because a request to them has to wait.
        """
        known = {
            node.endpoint: (self._channel.rests(node.endpoint), *self.calls.load(node.endpoint), self._channel.random())
            for node in self._nodes.values()
        }
        first = sorted(known, key=known.__getitem__)
        return first + [endpoint for endpoint in self._bootstrap if endpoint not in known]

    async def _refresh(self, names: Collection[str] | None) -> None:
        await self._ask(self._request(names), names)

    async def _ask(self, request: MetadataRequest, names: Collection[str] | None) -> None:
        """Request the metadata of ``names``. Topics that are still being created are requested again for a while."""
        retry = Retry(self._channel, self._options, timeout_ms=self._options.unknown_topic_patience_ms)
        while True:
            answer = await self.ask_anyone(request, MetadataResponse)
            if not answer.brokers:
                await retry.pause(error_for(_LEADER_NOT_AVAILABLE, "the cluster has no live brokers"))
                continue
            creating = self._absorb(answer, names)
            if not creating:
                return
            try:
                await retry.pause(error_for(_LEADER_NOT_AVAILABLE, "topics are being created"))
            except PenstockError:
                return  # the topics stay absent
            names = creating
            request = self._request(creating)

    def _request(self, names: Collection[str] | None) -> MetadataRequest:
        topics = None if names is None else [MetadataRequestTopic(name=name) for name in sorted(names)]
        create = self._options.auto_create_topics and names is not None
        return MetadataRequest(topics=topics, allow_auto_topic_creation=create)

    def _absorb(self, answer: MetadataResponse, names: Collection[str] | None) -> set[str]:
        """Take over a response; returns the topics that have no leaders yet."""
        self.changes += 1
        self._nodes = {
            each.node_id: Node(str(each.node_id), Endpoint(each.host, each.port), each.rack) for each in answer.brokers
        }
        self._controller = answer.controller_id
        self.cluster_id = answer.cluster_id or self.cluster_id
        if names is None:
            self._routing.answered_all()
            for gone in self._topics.keys() - {topic.name for topic in answer.topics}:
                self._forget(gone)
        creating: set[str] = set()
        result: list[str] = []
        creates = self._options.auto_create_topics and names is not None
        for topic in answer.topics:
            name = topic.name or self._names_by_id.get(topic.topic_id, "")
            if topic.error_code == NONE:
                self._keep(name, topic)
                result.append(name)
            elif topic.error_code == _LEADER_NOT_AVAILABLE:
                creating.add(name)
            elif topic.error_code in _ABSENT and not (creates and topic.error_code == _INVALID_NAME):
                self._forget(name)
            elif names is not None:
                raise error_for(topic.error_code, "asking for a topic failed", topic=name)
        self._routing.answered(result)
        return creating

    def _keep(self, name: str, topic: MetadataResponseTopic) -> None:
        topic_id = None if topic.topic_id == NO_UUID else topic.topic_id
        known = self._topics.get(name)
        same = known is not None and known.id == topic_id
        if not same:
            self._forget(name)
        partitions = tuple(
            self._newer(name, each, same=same)
            for each in sorted(topic.partitions, key=lambda each: each.partition_index)
        )
        for info in partitions:
            self._leaders[info.partition] = info
        self._topics[name] = TopicInfo(name, partitions, topic_id, topic.is_internal)
        if topic_id is not None:
            self._names_by_id[topic_id] = name

    def _tell(self, info: PartitionInfo) -> None:
        self.changes += 1
        self._leaders[info.partition] = info
        topic = self._topics.get(info.partition.topic)
        if topic is not None:
            parts = (info if each.partition == info.partition else each for each in topic.partitions)
            self._topics[topic.name] = replace(topic, partitions=tuple(parts))

    def _newer(self, name: str, result: MetadataResponsePartition, *, same: bool) -> PartitionInfo:
        partition = Partition(name, result.partition_index)
        known = self._leaders.get(partition)
        if same and known is not None and result.leader_epoch < known.leader_epoch:
            return known
        nodes = (self._nodes.get(each) for each in result.replica_nodes)
        racks = frozenset(node.rack for node in nodes if node is not None and node.rack)
        return PartitionInfo(partition, self._nodes.get(result.leader_id), result.leader_epoch, racks)

    def _forget(self, name: str | None) -> None:
        topic = self._topics.pop(name or "", None)
        if topic is None:
            return
        self._routing.forget(topic.name)
        if topic.id is not None:
            self._names_by_id.pop(topic.id, None)
        for info in topic.partitions:
            self._leaders.pop(info.partition, None)
            self._moved.discard(info.partition)
            self._lineages.pop(info.partition, None)


# Requests about many partitions, sent to each partition's leader and repeated after leader changes.
Result = TypeVar("Result")
Outcome = Mapping[Partition, Result | PenstockError]


def by_topic(partitions: Collection[Partition]) -> dict[str, list[Partition]]:
    """Sorted partitions by topic, as most requests need them."""
    found: dict[str, list[Partition]] = {}
    for partition in sorted(partitions):
        found.setdefault(partition.topic, []).append(partition)
    return found


def note_error(cluster: Cluster, partition: Partition, error: PenstockError) -> None:
    """Distrust the partition's leader if the error may mean that it has moved."""
    if not isinstance(error, ServerError) or row(error.code).refresh_metadata:
        cluster.distrust(partition)


async def on_leaders(
    cluster: Cluster,
    partitions: Collection[Partition],
    work: Callable[[Node, Sequence[Partition]], Awaitable[Outcome[Result]]],
    what: str,
) -> dict[Partition, Result]:
    """Run ``work`` for each leader with its partitions until every partition has a result.

    Raises the first error that is final, or that lasted longer than ``api_timeout_ms`` (``unknown_topic_patience_ms``
    for unknown topics). ``what`` begins the message of errors made here.
    """
    retry = Retry(cluster.calls.channel, cluster.calls.options)
    done: dict[Partition, Result] = {}
    left = set(partitions)
    while True:
        outcome = await _round(cluster, left, work, what)
        failed: dict[Partition, PenstockError] = {}
        for partition, result in outcome.items():
            if isinstance(result, PenstockError):
                note_error(cluster, partition, result)
                failed[partition] = result
            else:
                done[partition] = result
        left = set(failed)
        if not left:
            return done
        # Prefer a final error; else any will do.
        await retry.after(min(failed.values(), key=lambda error: error.retriable))


async def _round(
    cluster: Cluster,
    partitions: Collection[Partition],
    work: Callable[[Node, Sequence[Partition]], Awaitable[Outcome[Result]]],
    what: str,
) -> dict[Partition, Result | PenstockError]:
    await cluster.topics({partition.topic for partition in partitions})
    outcome: dict[Partition, Result | PenstockError] = {}
    groups: dict[Node, list[Partition]] = {}
    for partition in sorted(partitions):
        leader = cluster.leader(partition)
        if leader is not None:
            groups.setdefault(leader, []).append(partition)
            continue
        outcome[partition] = cluster.no_leader(partition, what)

    async def one(node: Node, of_node: Sequence[Partition]) -> Outcome[Result]:
        return await work(node, of_node)

    answers = await cluster.calls.channel.gather([one(node, of_node) for node, of_node in groups.items()])
    for of_node, answer in zip(groups.values(), answers, strict=True):
        if isinstance(answer, PenstockError):
            outcome.update(dict.fromkeys(of_node, answer))
        elif isinstance(answer, BaseException):
            raise answer
        else:
            missing = error_for(-1, f"{what}: the answer leaves it out")
            outcome.update({partition: answer.get(partition, missing) for partition in of_node})
    return outcome


# ListOffsets: a partition's start, its end, or its first record of some time.
#
# Source: Kafka protocol guide, ListOffsets v1-v11. For a time after the last record the response is -1, without an
# error.

_WHAT = "asking for an offset failed"
_NO_TIMES = 43
"""UNSUPPORTED_FOR_MESSAGE_FORMAT: the log's records have no times, or the broker does not search them by time."""


async def find_offsets(cluster: Cluster, wanted: Mapping[Partition, OffsetSpec]) -> dict[Partition, FoundOffset]:
    """The offset of each partition, from its leader.

    Raises ServerError, ConnectionLost, RequestTimeout; UsageError for a time if the log cannot be searched by time.
    """
    timestamps = {partition: _timestamp(spec) for partition, spec in wanted.items()}

    async def ask(node: Node, partitions: Sequence[Partition]) -> dict[Partition, FoundOffset | PenstockError]:
        answer = await cluster.calls.call(node.endpoint, _request(cluster, timestamps, partitions), ListOffsetsResponse)
        return _outcome(answer, timestamps)

    found = await on_leaders(cluster, wanted, ask, _WHAT)
    for partition, each in found.items():
        if each.leader_epoch >= 0 and each.offset >= 0:
            cluster.lineage(partition).heard(each.leader_epoch, each.offset)
    return found


def _timestamp(spec: OffsetSpec) -> int:
    if spec.name is not None:
        return int(spec.name)
    if spec.timestamp_ms is None or spec.timestamp_ms < 0:
        raise UsageError(
            "an OffsetSpec needs a name or a time since 1970",
            hint="Give Offset.LATEST, Offset.EARLIEST or timestamp_ms.",
        )
    return spec.timestamp_ms


def _request(
    cluster: Cluster, timestamps: Mapping[Partition, int], partitions: Sequence[Partition]
) -> ListOffsetsRequest:
    options = cluster.calls.options
    return ListOffsetsRequest(
        replica_id=-1,
        isolation_level=int(options.read_committed),
        timeout_ms=options.request_timeout_ms,
        topics=[
            ListOffsetsRequestTopic(
                name=topic,
                partitions=[
                    ListOffsetsRequestPartition(
                        partition_index=partition.id,
                        current_leader_epoch=cluster.leader_epoch(partition),
                        timestamp=timestamps[partition],
                    )
                    for partition in of_topic
                ],
            )
            for topic, of_topic in by_topic(partitions).items()
        ],
    )


def _outcome(
    answer: ListOffsetsResponse, timestamps: Mapping[Partition, int]
) -> dict[Partition, FoundOffset | PenstockError]:
    outcome: dict[Partition, FoundOffset | PenstockError] = {}
    for topic in answer.topics:
        for each in topic.partitions:
            partition = Partition(topic.name, each.partition_index)
            if each.error_code == NONE:
                outcome[partition] = FoundOffset(each.offset, each.timestamp, each.leader_epoch)
            elif each.error_code == _NO_TIMES:
                outcome[partition] = UsageError(
                    "the log has no offsets by time",
                    topic=topic.name,
                    partition=each.partition_index,
                    hint="Ask for the earliest or the latest offset; or say an offset",
                )
            else:
                outcome[partition] = error_for(each.error_code, _WHAT, topic=topic.name, partition=each.partition_index)
    return outcome
