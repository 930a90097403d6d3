"""OffsetCommit and OffsetFetch: a group's offsets, kept by its coordinator.

What to do about each error is the table of ``protocols.kafka.errors``: wait and ask again (14, 3 and the others marked
retriable), find the coordinator anew (15, 16, a lost connection), or raise. From v10 on both name topics by their ids,
where those are known: an offset of a deleted topic is then not committed for a later topic of the same name. Source:
Kafka protocol guide, OffsetCommit v2-v10, OffsetFetch v1-v10; KIP-447 (stable offsets), KIP-709 (batches of groups),
KIP-848 (member epochs).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from penstock.errors import PenstockError, ProtocolViolation, ServerError, TopicRecreated, UsageError
from penstock.model import Committed, Partition
from penstock.protocols.kafka.client.calls import ByVersion, only
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.commit_form import FIRST_VERSION, MARKED, CommitForm
from penstock.protocols.kafka.client.coordinator import Coordinator
from penstock.protocols.kafka.client.identity import NOBODY, Identity
from penstock.protocols.kafka.client.routing import by_topic
from penstock.protocols.kafka.client.versions import Versions
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.messages.commits import (
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
from penstock.protocols.kafka.messages.declare import NO_UUID
from penstock.seams.channel import PromptLink
from penstock.seams.framing import Frame
from penstock.seams.retry import Retry

__all__ = ["First", "commit", "commit_at_once", "committed", "with_epochs"]

_NO_OFFSET = -1
_UNSTABLE_OFFSET = 88
_UNKNOWN_TOPIC_ID = 100
_UNKNOWN_MEMBER, _STALE_EPOCH = 25, 113
_FIRST_WITH_STABLE = 7
_FIRST_WITH_GROUPS = 8
_FIRST_WITH_IDS = 10


class First(NamedTuple):
    """What the first attempt of a commit has met: who committed as ``identity``, and when (the channel's clock)."""

    error: Exception
    identity: Identity
    begun: float


FirstHeard: TypeAlias = Callable[[First | None], None]
"""Hears that a commit is stored (None), or what its first attempt has met."""


async def commit(
    coordinator: Coordinator,
    offsets: Mapping[Partition, Committed],
    identity: Identity = NOBODY,
    first: First | None = None,
) -> None:
    """Commit; returns when the coordinator has stored it. Raises ServerError (FencedError), ConnectionLost, and
    TopicRecreated for an offset of a topic that is gone: the others are committed.

    ``first``: the first attempt is over.
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
        complete = _with_ids(coordinator.cluster, complete)  # one request goes by ids, or by names
    await coordinator.cluster.refresh_recreated([(place.topic, each.topic_id) for place, each in complete.items()])
    gone = _without_topics_that_are_gone(coordinator.cluster, complete)
    while complete:
        try:
            if first is not None:
                raise first.error
            if len(complete) == 1:
                await _commit_one(coordinator, complete, identity)
            else:
                message = _commit_request(coordinator.key, complete, identity)
                _check(coordinator, await coordinator.call(message, OffsetCommitResponse), complete)
        except PenstockError as error:
            first = None
            # One partition's trouble repeats them all: to commit again what is committed already does no harm.
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
    """Take out the offsets of topics whose names other topics have now; the error for one of those."""
    error: TopicRecreated | None = None
    for partition, each in list(offsets.items()):
        found = cluster.recreated(partition, each.offset, each.topic_id)
        if found is not None:
            found.message = f"cannot commit: {found.message}"
            found.hint = "Commit what was read of the new topic"
            del offsets[partition]
            error = found
    return error


async def _commit_one(coordinator: Coordinator, offsets: Mapping[Partition, Committed], identity: Identity) -> None:
    """One attempt for one partition: of what is always the same nothing is written or read anew."""
    ((partition, committed),) = offsets.items()
    calls = coordinator.cluster.calls
    link = await coordinator.link()
    version = calls.version(link, OffsetCommitRequest, ids=committed.topic_id is not None)
    if version < FIRST_VERSION:
        message = _commit_request(coordinator.key, offsets, identity)
        _check(coordinator, await coordinator.call(message, OffsetCommitResponse), offsets)
        return
    form = _form(coordinator, partition, committed, identity, version)
    frame = await coordinator.ask(link, form.fill(committed.offset, committed.leader_epoch))
    if not form.is_good(frame.body):
        _check(coordinator, calls.read(link, OffsetCommitResponse, version, frame), offsets)


def commit_at_once(
    coordinator: Coordinator, offsets: Mapping[Partition, Committed], identity: Identity, heard: FirstHeard
) -> bool:
    """The first attempt of ``commit``, told of when it is over; False where something has to be waited for first, or
    more than one partition is committed, and nothing is done."""
    link = coordinator.prompt()
    if link is None or len(offsets) != 1:
        return False
    calls = coordinator.cluster.calls
    begun = calls.channel.monotonic()
    try:
        ((partition, committed),) = with_epochs(coordinator.cluster, offsets).items()
        version = calls.version(link, OffsetCommitRequest, ids=committed.topic_id is not None)
        if version < FIRST_VERSION or committed.offset < 0:
            return False
        if coordinator.cluster.recreated(partition, committed.offset, committed.topic_id) is not None:
            return False
        form = _form(coordinator, partition, committed, identity, version)

        def told(answer: Frame | PenstockError) -> None:
            try:
                _check_form(coordinator, link, form, version, answer, offsets)
            except Exception as error:
                heard(First(error, identity, begun))
            else:
                heard(None)

        coordinator.tell(link, form.fill(committed.offset, committed.leader_epoch), told)
    except PenstockError:
        return False  # `commit` meets it again, where there is somebody to raise it to
    return True


def _check_form(
    coordinator: Coordinator,
    link: PromptLink[Versions],
    form: CommitForm,
    version: int,
    answer: Frame | PenstockError,
    offsets: Mapping[Partition, Committed],
) -> None:
    if isinstance(answer, PenstockError):
        raise answer
    if not form.is_good(answer.body):
        _check(coordinator, coordinator.cluster.calls.read(link, OffsetCommitResponse, version, answer), offsets)


def _form(
    coordinator: Coordinator, partition: Partition, committed: Committed, identity: Identity, version: int
) -> CommitForm:
    """The partition's, made anew where anything else in it has changed than where the group is."""
    what = (identity, committed.metadata, version, committed.topic_id)
    known = coordinator.commit_forms.get(partition)
    if known is None or known[0] != what:
        marked = {partition: replace(MARKED, metadata=committed.metadata, topic_id=committed.topic_id)}
        request = _commit_message(coordinator.key, marked, identity)
        client_id = coordinator.cluster.calls.options.client_id
        known = (what, CommitForm(request, partition, version, client_id))
        coordinator.commit_forms[partition] = known
    return known[1]


def with_epochs(cluster: Cluster, offsets: Mapping[Partition, Committed]) -> dict[Partition, Committed]:
    """The same with the epochs of the records before them, so that who goes on there sees whether the log still has
    them."""
    return {
        partition: each
        if each.leader_epoch >= 0
        or (epoch := cluster.lineage(partition).epoch_before(each.offset)) == each.leader_epoch
        else Committed(each.offset, each.metadata, epoch, each.timestamp_ms, each.topic_id)
        for partition, each in offsets.items()
    }


def _commit_request(group: str, offsets: Mapping[Partition, Committed], identity: Identity) -> ByVersion:
    """By the topics' ids where all are known; else by their names."""
    message = _commit_message(group, offsets, identity)
    ids = all(each.topic_id is not None for each in offsets.values())
    return ByVersion(OffsetCommitRequest, lambda version: message, ids=ids)


def _commit_message(group: str, offsets: Mapping[Partition, Committed], identity: Identity) -> OffsetCommitRequest:
    """With names and ids: its version decides which of them are sent."""
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
    """The committed offsets of some partitions (None: of all); those without one are absent.

    A member of a newer group asks in its epoch (KIP-848): where the coordinator has another one, it will have what
    others commit before they give partitions up. Who is none any more asks as everybody may.
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
            coordinator.held_offsets.told(_held(answer, names), calls.channel.monotonic())
            return dict(_found(coordinator, answer, names))
        except PenstockError as error:
            coordinator.note(error)
            code = error.code if isinstance(error, ServerError) else None
            if asks_as is not NOBODY and code in (_UNKNOWN_MEMBER, _STALE_EPOCH):
                await retry.pause(error)
                asks_as = coordinator.asks_as if code == _STALE_EPOCH else NOBODY
            else:
                await retry.after(error)
                if code == _UNKNOWN_TOPIC_ID:
                    await coordinator.cluster.topics(topics, fresh=True)


def _fetch_request(
    group: str, partitions: Collection[Partition] | None, asks_as: Identity, ids: Mapping[str, bytes]
) -> ByVersion:
    """``ids``: of all topics, or none."""
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
        member = (asks_as.member_id, asks_as.generation) if asks_as is not NOBODY else (None, -1)
        groups = [OffsetFetchRequestGroup(group_id=group, topics=of_group, member_id=member[0], member_epoch=member[1])]
        return OffsetFetchRequest(groups=groups, require_stable=stable)

    return ByVersion(OffsetFetchRequest, build, ids=bool(ids))


def _held(answer: OffsetFetchResponse, names: Mapping[bytes, str]) -> set[Partition]:
    """Partitions whose offset is in a transaction that has not ended yet."""
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
    # Before v8 one group stands in the answer itself; its list of groups is then the default, not an empty one.
    told = only(answer.groups, what) if answer.groups != () else answer
    if told.error_code != NONE:
        raise error_for(told.error_code, what)
    for topic in told.topics:
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
