"""The coordinator of a group or a transactional id.

`Coordinator` finds it and sends requests to it on their own connection; `commit` and `committed` write and read a
group's offsets there. `HeldOffsets` warns when an open transaction holds a group's offsets.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple, TypeAlias, TypeVar

from msgspec import Struct

from penstock.config.client import ClientLog, whose
from penstock.errors import (
    ConnectionLost,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    ServerError,
    TopicRecreated,
    UsageError,
)
from penstock.interfaces.channel import Connection, Link, OnAnswer, Outgoing, PromptLink, Retry
from penstock.interfaces.framing import Frame
from penstock.model import Committed, Endpoint, Node, Partition
from penstock.protocols.kafka.client.cluster import Cluster, by_topic
from penstock.protocols.kafka.client.connection import ByVersion, Versions, only
from penstock.protocols.kafka.errors import NONE, error_for, row
from penstock.protocols.kafka.wire.declarations import NO_UUID
from penstock.protocols.kafka.wire.offsets import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
    OffsetFetchResponse,
    OffsetFetchResponseTopic,
)

__all__ = [
    "NO_MEMBER",
    "Coordinator",
    "First",
    "HeldOffsets",
    "Identity",
    "Kind",
    "commit",
    "commit_at_once",
    "committed",
    "coordinators",
    "with_epochs",
]


# The identity that offset requests carry.
class Identity(Struct, frozen=True):
    """A member in a generation (of a KIP-848 group: in a member epoch), or no member at all."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


NO_MEMBER = Identity()

# Held offsets: a warning in the log when an open transaction holds a group's offsets for long.
#
# A coordinator does not return an offset that an open transaction is about to change (UNSTABLE_OFFSET_COMMIT, KIP-447).
# This usually lasts milliseconds. A transaction that a killed program left open lasts until its transactional id is
# taken over, or its ``transaction_timeout_ms`` are over.

_FIRST_S: Final = 5.0
_EVERY_S: Final = 30.0
_FORGOTTEN_S: Final = 60.0
"""After this time without a request, the offsets may have been released and held again meanwhile."""


class HeldOffsets:
    """The held offsets of one group, as one client sees them. Times are a monotonic clock's seconds."""

    def __init__(self, client_id: str, group: str) -> None:
        self._log = ClientLog("penstock.consumer", whose(client_id, group))
        self._group = group
        self._since: float | None = None
        self._asked = 0.0
        self._said: float | None = None

    def reported(self, held: Collection[Partition], now: float) -> None:
        """Note the held partitions of a coordinator's response."""
        if self._since is not None and now - self._asked > _FORGOTTEN_S:
            self._since = self._said = None
        self._asked = now
        if held:
            self._held(held, now)
        elif self._since is not None:
            if self._said is not None:
                self._log.warning(
                    "the offsets of group %s are reported again after %.0f s", self._group, now - self._since
                )
            self._since = self._said = None

    def _held(self, held: Collection[Partition], now: float) -> None:
        self._since = now if self._since is None else self._since
        lasted = now - self._since
        if lasted < _FIRST_S or (self._said is not None and now - self._said < _EVERY_S):
            return
        self._said = now
        self._log.warning(
            "a transaction that was left open has held the offsets of group %s in %s for %.0f s, and reading waits for"
            " it: start the producer with its transactional id again, or wait until its transaction_timeout_ms are"
            " over; kafka-transactions.sh find-hanging tells which",
            self._group,
            ", ".join(map(str, sorted(held))),
            lasted,
        )


# Finding the coordinator of a group or of a transactional id, and requests to it on its own connection.
#
# A group's connection must not be shared: a JoinGroup may block it for minutes. Source: Kafka protocol guide,
# FindCoordinator v0-v6 (KIP-699 from v4).

Response = TypeVar("Response")
T = TypeVar("T")
_FIRST_WITH_KEYS = 4


class Kind(enum.IntEnum):
    """The kind of a coordinator's key; the values are FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1


_NOUNS = {Kind.GROUP: "group", Kind.TRANSACTION: "transactional id"}
_ASIDE = " aside"
_LANES = {Kind.GROUP: "coordinator", Kind.TRANSACTION: "transactions"}


class Coordinator:
    """The coordinator of one group or one transactional id (its ``key``), and the connections to it."""

    def __init__(self, cluster: Cluster, key: str, kind: Kind = Kind.GROUP) -> None:
        self.cluster = cluster
        self.key = key
        self._kind = kind
        self._lane = _LANES[kind]
        self._node: Node | None = None
        self._connection: Connection | None = None
        self._aside: Connection | None = None
        self.asks_as: Identity = NO_MEMBER
        """The identity for OffsetFetch: the member of a KIP-848 group, while this client is one."""
        self.held_offsets = HeldOffsets(cluster.calls.options.client_id, key)

    async def find(self) -> Node:
        """The coordinator's node; asks and retries while it is unknown. Raises ServerError, ConnectionLost."""
        calls = self.cluster.calls
        retry = Retry(calls.channel, calls.options)
        while self._node is None:
            try:
                self._node = await self._ask()
            except PenstockError as error:
                await retry.after(error)
        return self._node

    def forget(self) -> None:
        """Look the coordinator up again before the next request: it has moved or cannot be reached."""
        self._node = None

    def note(self, error: PenstockError) -> None:
        """Forget the coordinator if the error means that it has moved or cannot be reached."""
        if isinstance(error, (ConnectionLost, RequestTimeout)) or (
            isinstance(error, ServerError) and row(error.code).rediscover_coordinator
        ):
            self.forget()

    async def call(
        self,
        message: object,
        response: type[Response],
        *,
        timeout_s: float | None = None,
        held_s: float = 0.0,
        at_most: int | None = None,
        aside: bool = False,
    ) -> Response:
        """One request; after a lost connection the coordinator is looked up again. ``held_s`` as for ``Calls.call``.

        ``aside``: on a second connection, so that other requests are not blocked.
        """
        node = await self.find()
        calls = self.cluster.calls
        try:
            link = await calls.link(node.endpoint, self._lane + _ASIDE if aside else self._lane)
            if aside:
                self._aside = link.connection
            else:
                self._connection = link.connection
            return await calls.call(
                node.endpoint, message, response, timeout_s=timeout_s, held_s=held_s, at_most=at_most, over=link
            )
        except PenstockError as error:
            self.note(error)
            raise

    async def persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Repeat ``ask`` until it succeeds. If the coordinator moves, it is looked up again.

        Raises errors that are not retriable, and the last error when ``api_timeout_ms`` is over.
        """
        retry = Retry(self.cluster.calls.channel, self.cluster.calls.options)
        while True:
            try:
                return await ask()
            except PenstockError as error:
                self.note(error)
                await retry.after(error)

    async def link(self) -> Link[Versions]:
        """A connection to the coordinator, for ``ask``. Raises as ``call`` does."""
        node = await self.find()
        try:
            link = await self.cluster.calls.link(node.endpoint, self._lane)
        except PenstockError as error:
            self.note(error)
            raise
        self._connection = link.connection
        return link

    def prompt(self) -> PromptLink[Versions] | None:
        """The connection if it is ready without waiting, for ``tell``; else None."""
        if self._node is None:
            return None
        link = self.cluster.calls.prompt(self._node.endpoint, self._lane)
        if link is not None:
            self._connection = link.connection
        return link

    def tell(self, link: PromptLink[Versions], outgoing: Outgoing, result: OnAnswer) -> None:
        """Send one request without waiting. ``result`` gets the response, and must pass an error to ``note``.

        Raises ConnectionLost.
        """
        calls = self.cluster.calls
        calls.tell(link, outgoing, result, timeout_s=calls.options.request_timeout_s)

    async def versions(self) -> Versions:
        """The versions that the coordinator supports. Raises as ``find`` does, and ConnectionLost."""
        node = await self.find()
        return (await self.cluster.calls.link(node.endpoint, self._lane)).state

    def hang_up(self) -> None:
        """Close the connections, so that later requests do not wait behind a response that is no longer needed."""
        for connection in (self._connection, self._aside):
            if connection is not None:
                connection.close()

    async def _ask(self) -> Node:
        found = (await coordinators(self.cluster, [self.key], self._kind))[self.key]
        if isinstance(found, PenstockError):
            raise found
        return found


async def coordinators(
    cluster: Cluster, keys: Sequence[str], kind: Kind = Kind.GROUP
) -> dict[str, Node | PenstockError]:
    """The coordinator of each key, or the broker's error for it; each key is asked for once.

    Uses one request from v4 on. Raises the last error if no broker answers, and ProtocolViolation.
    """
    found: dict[str, Node | PenstockError] = {}
    while left := keys[len(found) :]:
        build = functools.partial(_request, left, kind)
        answer = await cluster.ask_anyone(ByVersion(FindCoordinatorRequest, build), FindCoordinatorResponse)
        if answer.coordinators == ():  # the default, before v4
            found[left[0]] = _node(answer, left[0], kind)
            continue
        result = {each.key: each for each in answer.coordinators}
        if result.keys() != set(left) or len(answer.coordinators) != len(left):
            raise ProtocolViolation(
                f"{_what(left[0], kind)}: {len(answer.coordinators)} answers to {len(left)} questions, or to others"
            )
        found |= {key: _node(result[key], key, kind) for key in left}
    return found


def _request(keys: Sequence[str], kind: Kind, version: int) -> FindCoordinatorRequest:
    if version < _FIRST_WITH_KEYS:
        return FindCoordinatorRequest(key=keys[0], key_type=kind)
    return FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)


def _what(key: str, kind: Kind) -> str:
    return f"finding the coordinator of {_NOUNS[kind]} {key!r} failed"


def _node(
    result: FindCoordinatorResponse | FindCoordinatorResponseCoordinator, key: str, kind: Kind
) -> Node | PenstockError:
    if result.error_code != NONE:
        return error_for(result.error_code, _what(key, kind), detail=result.error_message)
    if not result.host:
        return ProtocolViolation(f"{_what(key, kind)}: the answer names no node")
    return Node(str(result.node_id), Endpoint(result.host, result.port))


# OffsetCommit and OffsetFetch: a group's offsets, kept by its coordinator.
#
# ``protocols.kafka.errors`` decides about each error: wait and ask again (14, 3 and the others marked retriable), look
# up the coordinator (15, 16, a lost connection), or raise. From v10 on both identify topics by id if the ids are known:
# the offset of a deleted topic is then not committed for a later topic of the same name. Source: Kafka protocol guide,
# OffsetCommit v2-v10, OffsetFetch v1-v10; KIP-447 (stable offsets), KIP-709 (batches of groups), KIP-848 (member
# epochs).

_NO_OFFSET = -1
_UNSTABLE_OFFSET = 88
_UNKNOWN_TOPIC_ID = 100
_UNKNOWN_MEMBER, _STALE_EPOCH = 25, 113
_FIRST_WITH_STABLE = 7
_FIRST_WITH_GROUPS = 8
_FIRST_WITH_IDS = 10


class First(NamedTuple):
    """The failed first attempt of a commit: its error, the identity it used, its start (the channel's clock)."""

    error: Exception
    identity: Identity
    begun: float


FirstHeard: TypeAlias = Callable[[First | None], None]
"""Called with None when the commit is stored, or with the failed first attempt."""


async def commit(
    coordinator: Coordinator,
    offsets: Mapping[Partition, Committed],
    identity: Identity = NO_MEMBER,
    first: First | None = None,
) -> None:
    """Commit; returns when the coordinator has stored it. Raises ServerError (FencedError) and ConnectionLost.

    Raises TopicRecreated for an offset of a deleted topic; the other offsets are committed. ``first``: the first
    attempt, which has already failed.
    """
    for partition, each in offsets.items():
        if each.offset < 0:
            raise UsageError(
                f"a committed offset cannot be {each.offset}", topic=partition.topic, partition=partition.id
            )
    calls = coordinator.cluster.calls
    retry = Retry(calls.channel, calls.options, begun=None if first is None else first.begun)
    complete = with_epochs(coordinator.cluster, offsets)
    if len(complete) > 1 and any(each.topic_id is not None for each in complete.values()):
        complete = _with_ids(coordinator.cluster, complete)  # a request has ids for all topics, or names for all
    await coordinator.cluster.refresh_recreated([(place.topic, each.topic_id) for place, each in complete.items()])
    gone = _without_topics_that_are_gone(coordinator.cluster, complete)
    while complete:
        try:
            if first is not None:
                raise first.error
            message = _commit_request(coordinator.key, complete, identity)
            _check(coordinator, await coordinator.call(message, OffsetCommitResponse), complete)
        except PenstockError as error:
            first = None
            # An error of one partition repeats all of them: committing an offset twice does no harm.
            coordinator.note(error)
            await retry.after(error)
            if isinstance(error, ServerError) and error.code == _UNKNOWN_TOPIC_ID:
                await coordinator.cluster.topics({partition.topic for partition in complete}, fresh=True)
                gone = _without_topics_that_are_gone(coordinator.cluster, complete) or gone
        else:
            break
    if gone is not None:
        raise gone


def _with_ids(cluster: Cluster, offsets: Mapping[Partition, Committed]) -> dict[Partition, Committed]:
    return {
        partition: each if each.topic_id is not None else replace(each, topic_id=cluster.topic_id(partition.topic))
        for partition, each in offsets.items()
    }


def _without_topics_that_are_gone(cluster: Cluster, offsets: dict[Partition, Committed]) -> TopicRecreated | None:
    """Remove the offsets of topics that were recreated; returns the error for one of those."""
    error: TopicRecreated | None = None
    for partition, each in list(offsets.items()):
        found = cluster.recreated(partition, each.offset, each.topic_id)
        if found is not None:
            found.message = f"cannot commit: {found.message}"
            found.hint = "Commit what was read of the new topic"
            del offsets[partition]
            error = found
    return error


def commit_at_once(
    coordinator: Coordinator, offsets: Mapping[Partition, Committed], identity: Identity, heard: FirstHeard
) -> bool:
    """Send the first attempt of ``commit``; ``heard`` is called when it is over.

    Returns False, without any effect, if it would have to wait first or if more than one partition is committed.
    """
    link = coordinator.prompt()
    if link is None or len(offsets) != 1:
        return False
    calls = coordinator.cluster.calls
    begun = calls.channel.monotonic()
    try:
        complete = with_epochs(coordinator.cluster, offsets)
        ((partition, committed),) = complete.items()
        if committed.offset < 0:
            return False
        if coordinator.cluster.recreated(partition, committed.offset, committed.topic_id) is not None:
            return False
        outgoing, version = calls.encoded(link, _commit_request(coordinator.key, complete, identity))

        def on_result(answer: Frame | PenstockError) -> None:
            try:
                if isinstance(answer, PenstockError):
                    raise answer
                _check(coordinator, calls.read(link, OffsetCommitResponse, version, answer), offsets)
            except Exception as error:
                heard(First(error, identity, begun))
            else:
                heard(None)

        coordinator.tell(link, outgoing, on_result)
    except PenstockError:
        return False  # `commit` meets the same error, and can raise it to its caller
    return True


def with_epochs(cluster: Cluster, offsets: Mapping[Partition, Committed]) -> dict[Partition, Committed]:
    """The same offsets with the epochs of the records before them, by which a later reader detects a truncated log."""
    return {
        partition: each
        if each.leader_epoch >= 0
        or (epoch := cluster.lineage(partition).epoch_before(each.offset)) == each.leader_epoch
        else Committed(each.offset, each.metadata, epoch, each.timestamp_ms, each.topic_id)
        for partition, each in offsets.items()
    }


def _commit_request(group: str, offsets: Mapping[Partition, Committed], identity: Identity) -> ByVersion:
    """With topic ids if all are known; else with names."""
    message = _commit_message(group, offsets, identity)
    ids = all(each.topic_id is not None for each in offsets.values())
    return ByVersion(OffsetCommitRequest, lambda version: message, ids=ids)


def _commit_message(group: str, offsets: Mapping[Partition, Committed], identity: Identity) -> OffsetCommitRequest:
    """With names and ids: the version decides which of them are sent."""
    topics: dict[tuple[str, bytes], list[Partition]] = {}
    for partition in sorted(offsets):
        topics.setdefault((partition.topic, offsets[partition].topic_id or NO_UUID), []).append(partition)
    return OffsetCommitRequest(
        group_id=group,
        generation_id_or_member_epoch=identity.generation,
        member_id=identity.member_id,
        group_instance_id=identity.instance_id,
        topics=[
            OffsetCommitRequestTopic(
                name=topic,
                topic_id=topic_id,
                partitions=[
                    OffsetCommitRequestPartition(
                        partition_index=partition.id,
                        committed_offset=offsets[partition].offset,
                        committed_leader_epoch=offsets[partition].leader_epoch,
                        committed_metadata=offsets[partition].metadata,
                    )
                    for partition in of_topic
                ],
            )
            for (topic, topic_id), of_topic in topics.items()
        ],
    )


def _check(coordinator: Coordinator, answer: OffsetCommitResponse, offsets: Mapping[Partition, Committed]) -> None:
    what = f"committing offsets of group {coordinator.key!r} failed"
    left = set(offsets)
    names = {each.topic_id: partition.topic for partition, each in offsets.items()}
    for topic in answer.topics:
        name = topic.name or names.get(topic.topic_id, "")
        for each in topic.partitions:
            if each.error_code != NONE:
                raise error_for(each.error_code, what, topic=name, partition=each.partition_index)
            left.discard(Partition(name, each.partition_index))
    if left:
        raise ProtocolViolation(f"{what}: the answer leaves out {', '.join(map(str, sorted(left)))}")


async def committed(coordinator: Coordinator, partitions: Collection[Partition] | None) -> dict[Partition, Committed]:
    """The committed offsets of some partitions (None: all); partitions without one are absent.

    A KIP-848 member asks in its epoch: if the coordinator has another epoch, other members may still commit before they
    give partitions up. A member that has been removed asks without membership.
    """
    if partitions is not None and not partitions:
        return {}
    calls = coordinator.cluster.calls
    retry = Retry(calls.channel, calls.options)
    asks_as = coordinator.asks_as
    topics = {partition.topic for partition in partitions or ()}
    while True:
        known = {topic: coordinator.cluster.topic_id(topic) for topic in topics}
        ids = {topic: topic_id for topic, topic_id in known.items() if topic_id is not None}
        names = {topic_id: topic for topic, topic_id in ids.items()}
        try:
            message = _fetch_request(coordinator.key, partitions, asks_as, ids if len(ids) == len(known) else {})
            answer = await coordinator.call(message, OffsetFetchResponse)
            coordinator.held_offsets.reported(_held(answer, names), calls.channel.monotonic())
            return dict(_found(coordinator, answer, names))
        except PenstockError as error:
            coordinator.note(error)
            code = error.code if isinstance(error, ServerError) else None
            if asks_as is not NO_MEMBER and code in (_UNKNOWN_MEMBER, _STALE_EPOCH):
                await retry.pause(error)
                asks_as = coordinator.asks_as if code == _STALE_EPOCH else NO_MEMBER
            else:
                await retry.after(error)
                if code == _UNKNOWN_TOPIC_ID:
                    await coordinator.cluster.topics(topics, fresh=True)


def _fetch_request(
    group: str, partitions: Collection[Partition] | None, asks_as: Identity, ids: Mapping[str, bytes]
) -> ByVersion:
    """``ids``: of all topics, or empty."""
    numbers = None if partitions is None else {t: [p.id for p in of_t] for t, of_t in by_topic(partitions).items()}

    def build(version: int) -> OffsetFetchRequest:
        stable = version >= _FIRST_WITH_STABLE
        if version < _FIRST_WITH_GROUPS:
            topics = None
            if numbers is not None:
                topics = [OffsetFetchRequestTopic(name=name, partition_indexes=of) for name, of in numbers.items()]
            return OffsetFetchRequest(group_id=group, topics=topics, require_stable=stable)
        of_group = None
        if numbers is not None:
            of_group = [
                OffsetFetchRequestGroupTopic(name=name, topic_id=ids.get(name, NO_UUID), partition_indexes=of_topic)
                for name, of_topic in numbers.items()
            ]
        member = (asks_as.member_id, asks_as.generation) if asks_as is not NO_MEMBER else (None, -1)
        groups = [OffsetFetchRequestGroup(group_id=group, topics=of_group, member_id=member[0], member_epoch=member[1])]
        return OffsetFetchRequest(groups=groups, require_stable=stable)

    return ByVersion(OffsetFetchRequest, build, ids=bool(ids))


def _held(answer: OffsetFetchResponse, names: Mapping[bytes, str]) -> set[Partition]:
    """Partitions whose offset is in an open transaction."""
    held = {
        Partition(topic.name, each.partition_index)
        for topic in answer.topics
        for each in topic.partitions
        if each.error_code == _UNSTABLE_OFFSET
    }
    return held | {
        Partition(topic.name or names.get(topic.topic_id, ""), each.partition_index)
        for group in answer.groups
        for topic in group.topics
        for each in topic.partitions
        if each.error_code == _UNSTABLE_OFFSET
    }


def _found(
    coordinator: Coordinator, answer: OffsetFetchResponse, names: Mapping[bytes, str]
) -> Iterator[tuple[Partition, Committed]]:
    what = f"asking for the offsets of group {coordinator.key!r} failed"
    # Before v8 the response itself has one group; its list of groups is then the default, not an empty list.
    result = only(answer.groups, what) if answer.groups != () else answer
    if result.error_code != NONE:
        raise error_for(result.error_code, what)
    for topic in result.topics:
        topic_id = None if isinstance(topic, OffsetFetchResponseTopic) or topic.name else topic.topic_id
        name = topic.name or names.get(topic_id or NO_UUID, "")
        for each in topic.partitions:
            if each.error_code != NONE:
                raise error_for(each.error_code, what, topic=name, partition=each.partition_index)
            if each.committed_offset != _NO_OFFSET:
                partition = Partition(name, each.partition_index)
                if each.committed_leader_epoch >= 0:
                    lineage = coordinator.cluster.lineage(partition)
                    lineage.heard(each.committed_leader_epoch, each.committed_offset)
                epoch = each.committed_leader_epoch
                yield partition, Committed(each.committed_offset, each.metadata or "", epoch, topic_id=topic_id)
