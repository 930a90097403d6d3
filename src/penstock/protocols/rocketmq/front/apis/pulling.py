"""Consumers: messages out of the log, and the wait for more of them. 11, 361, and 351 as the first Snode means it.

Source: Apache RocketMQ 4.9 and 5.x, ``PullMessageProcessor``, ``PullRequestHoldService``. A hold ends exactly when its
client said, and is not ended by messages that the client does not want.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from penstock._dataclasses import dataclass
from penstock.errors import LogOffsetOutOfRange
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.apis.groups import made_group
from penstock.protocols.rocketmq.front.broker.filters import Wanted, wanted_by
from penstock.protocols.rocketmq.front.broker.messages import Dress
from penstock.protocols.rocketmq.front.broker.reading import Limits, Piece
from penstock.protocols.rocketmq.front.broker.settings import READ
from penstock.protocols.rocketmq.front.call import Call, Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.seams.enode import TopicState

__all__ = ["pull", "snode_pull"]

_FOUND: Final = "FOUND"
_NO_MATCH: Final = "NO_MATCHED_MESSAGE"
_AT_END: Final = "OFFSET_OVERFLOW_ONE"
_BEYOND: Final = "OFFSET_OVERFLOW_BADLY"
_BEFORE: Final = "OFFSET_TOO_SMALL"
_SQL92: Final = "SQL92"
_BROADCASTING: Final = "BROADCASTING"


_HELD_BYTES: Final = 4_000
"""A task that waits, with its request; measured."""


@dataclass(frozen=True, slots=True, eq=False)
class _Asked:
    topic: TopicState
    partition: Partition
    dress: Dress
    wanted: Wanted | None
    limits: Limits


async def pull(call: Call, request: m.PullMessage) -> Reply:
    """Serve pull message; the answer comes when there is something, or the client's time is over."""
    return await _pulled(call, request, _wanted)


async def snode_pull(call: Call, request: m.PullMessage) -> Reply:
    """Serve pull message of a Snode."""
    return await _pulled(call, request, _wanted_by_snode)


async def _pulled(
    call: Call, request: m.PullMessage, wanted_of: Callable[[Call, m.PullMessage], Wanted | None]
) -> Reply:
    shared = call.shared
    topic = await _allowed(call, request)
    partition = Partition(topic.name, request.queue_id)
    wanted = wanted_of(call, request)
    if request.sys_flag & m.PullFlag.COMMIT and request.commit_offset >= 0:
        await shared.positions.set(request.consumer_group, partition, request.commit_offset, call.line.address.host)
    place = await shared.places.base(topic, request.queue_id)
    cluster = shared.cluster
    dress = Dress(request.topic, request.queue_id, place, cluster.host, cluster.name)
    options = shared.options
    most_bytes = min(options.transfer_bytes, request.max_msg_bytes or options.transfer_bytes)
    limits = Limits(max(1, min(request.max_msg_nums, options.transfer_messages)), most_bytes, options.examined_messages)
    asked = _Asked(topic, partition, dress, wanted, limits)
    try:
        piece = await _read(call, asked, request)
    except LogOffsetOutOfRange as error:
        return _moved(request.queue_offset, error)
    if piece.messages:
        shared.counts.give(request.topic, request.consumer_group, len(piece.messages), shared.now)
    return _answer(request.queue_offset, piece)


async def _allowed(call: Call, request: m.PullMessage) -> TopicState:
    """The topic, if operators let the group read that queue of it. Raises Refused; the order of checks is brokers'."""
    shared, group = call.shared, request.consumer_group
    settings = shared.settings
    if not settings.perm & READ:
        raise Refused(Code.NO_PERMISSION, f"the broker[{shared.cluster.broker}] pulling message is forbidden")
    made_group(call, group)
    if not settings.may_consume(group):
        raise Refused(Code.NO_PERMISSION, f"subscription group no permission, {group}")
    topic = await shared.cluster.known(request.topic)
    queues = settings.queues(topic)
    if not queues.perm & READ:
        raise Refused(Code.NO_PERMISSION, f"the topic[{request.topic}] pulling message is forbidden")
    if not 0 <= request.queue_id < queues.read:
        raise Refused(
            Code.INVALID_PARAMETER,
            f"queueId[{request.queue_id}] is illegal, topic:[{request.topic}] topicConfig.readQueueNums:"
            f"[{queues.read}] consumer:[{call.line.address}]",
        )
    return topic


async def _read(call: Call, asked: _Asked, request: m.PullMessage) -> Piece:
    """What there is; if that is nothing and the client wants to wait, what comes.

    Where all that is there was left out, the client is told at once how far that goes, as real brokers do: its group's
    lag would stand still meanwhile.
    """
    shared = call.shared
    piece = await _once(call, asked, request.queue_offset)
    if piece.messages or piece.next_offset > request.queue_offset or not request.sys_flag & m.PullFlag.SUSPEND:
        return piece
    if (full := shared.held.put(asked, call.line, _HELD_BYTES)) is not None:
        raise Refused(Code.SYSTEM_BUSY, full)
    try:
        return await _held(call, asked, request, piece)
    finally:
        shared.held.drop(asked)


async def _held(call: Call, asked: _Asked, request: m.PullMessage, piece: Piece) -> Piece:
    """What comes while the client wants to wait."""
    shared = call.shared
    runtime = shared.services.runtime
    until = shared.now + min(max(request.suspend_timeout_millis, 0), shared.options.max_hold_ms) / 1_000
    while not piece.messages and not call.line.over and (left := until - shared.now) > 0:
        if piece.next_offset >= piece.end:
            arrival = shared.enode.arrival({asked.partition: piece.log_end})
            timer = runtime.call_later(left, lambda arrival=arrival: arrival.set(None))  # type: ignore[misc]
            try:
                await call.line.park(arrival)
            finally:
                timer.cancel()
                shared.enode.forget_arrival(arrival)
        piece = await _once(call, asked, piece.next_offset)
    await _allowed(call, request)  # an operator may have changed that meanwhile
    return piece


async def _once(call: Call, asked: _Asked, offset: int) -> Piece:
    return await call.shared.reader.read(asked.topic, asked.partition, offset, asked.dress, asked.wanted, asked.limits)


def _wanted(call: Call, request: m.PullMessage) -> Wanted | None:
    """What the request says, or what its group said before. Raises Refused."""
    if request.sys_flag & m.PullFlag.INLINE:
        return wanted_by(request.subscription, request.expression_type)
    group = call.shared.clients.consumers.get(request.consumer_group)
    if group is None:
        raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist: {request.consumer_group}")
    if group.message_model == _BROADCASTING and not call.shared.settings.may_broadcast(request.consumer_group):
        raise Refused(
            Code.NO_PERMISSION, f"the consumer group[{request.consumer_group}] can not consume by broadcast way"
        )
    known = group.subscriptions.get(request.topic)
    if known is None:
        raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist: {request.topic}")
    if known.sub_version < request.sub_version:
        raise Refused(Code.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    return wanted_by(known.sub_string, known.expression_type)


def _wanted_by_snode(call: Call, request: m.PullMessage) -> Wanted | None:
    """The same of a group that beats at its Snode, and may be unknown here. Raises Refused.

    Then all comes, as at the first Snode's brokers, and clients leave out other tags themselves; they do not do that
    with SQL92, which has to be in the pull.
    """
    inline = request.sys_flag & m.PullFlag.INLINE
    if inline or request.consumer_group in call.shared.clients.consumers or request.expression_type == _SQL92:
        return _wanted(call, request)
    return None


def _answer(offset: int, piece: Piece) -> Reply:
    header = m.Pulled(next_begin_offset=piece.next_offset, min_offset=piece.start, max_offset=piece.end)
    if piece.messages:
        return Reply(header, b"".join(piece.messages), remark=_FOUND)
    if piece.next_offset > offset:
        return Reply(header, code=Code.PULL_RETRY_IMMEDIATELY, remark=_NO_MATCH)
    return Reply(header, code=Code.PULL_NOT_FOUND, remark=_AT_END)


def _moved(offset: int, error: LogOffsetOutOfRange) -> Reply:
    start, end = error.start_offset, error.end_offset
    header = m.Pulled(next_begin_offset=start if offset < start else end, min_offset=start, max_offset=end)
    return Reply(header, code=Code.PULL_OFFSET_MOVED, remark=_BEFORE if offset < start else _BEYOND)
