"""Single messages: by their id, and by their keys. 33, 12.

There is no index of keys: the topic is read, from the time that is asked for on, as far as one question may go. Source:
Apache RocketMQ 4.9 and 5.x, ``QueryMessageProcessor``.
"""

from __future__ import annotations

from typing import Final

from penstock.columnar.plain_records import Stored
from penstock.model import Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.broker.delays import header_of
from penstock.protocols.rocketmq.front.broker.messages import Dress
from penstock.protocols.rocketmq.front.broker.own_topic import record_at
from penstock.protocols.rocketmq.front.broker.reading import Limits
from penstock.protocols.rocketmq.front.call import Call, Reply
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.naming import is_hidden, rocket_name
from penstock.seams.enode import TopicState, extent

__all__ = ["query", "stored_at", "view"]

_MOST_EXAMINED: Final = 200_000
_PIECE: Final = 800
_STEPS: Final = 800
"""Of `Turns`, for a piece: about ten microseconds a record."""
_MOST_FOUND: Final = 64


async def view(call: Call, request: m.ViewMessage) -> Reply:
    """Serve view message by id."""
    return Reply(body=await stored_at(call, request.offset))


async def stored_at(call: Call, place: int) -> bytes:
    """The message at a place. Raises Refused where there is none, or not any more."""
    shared = call.shared
    found = await shared.places.find(place)
    record = None
    if found is not None and not is_hidden(found[0].topic):
        record = await record_at(shared.enode, *found)
    if found is None or record is None:
        raise Refused(Code.SYSTEM_ERROR, f"can not find message by the offset: {place}")
    topic = await shared.cluster.known(rocket_name(found[0].topic))
    return (await _dress(call, topic, found[0])).stored(record)


async def query(call: Call, request: m.QueryMessage) -> Reply:
    """Serve query message: those that have the key, or the unique id, among ``max_num`` at most."""
    shared = call.shared
    topic = await shared.cluster.known(request.topic)
    most = max(1, min(request.max_num, _MOST_FOUND))
    found: list[bytes] = []
    newest_ms = 0
    left = _MOST_EXAMINED
    for number in range(topic.partitions):
        partition = Partition(topic.name, number)
        dress = await _dress(call, topic, partition)
        at = await _begin(call, partition, request.begin_timestamp)

        def wanted(record: Stored) -> bool:
            nonlocal newest_ms
            hit = _has(record, request)
            newest_ms = max(newest_ms, record.timestamp_ms if hit else 0)
            return hit

        while at is not None and left > 0 and len(found) < most:
            await shared.turns.take(_STEPS)
            piece = await shared.reader.read(
                topic, partition, at, dress, wanted, Limits(most - len(found), 8 << 20, _PIECE)
            )
            found += piece.messages
            left -= max(1, piece.next_offset - at)
            at = piece.next_offset if at < piece.next_offset < piece.end else None
    if not found:
        raise Refused(Code.QUERY_NOT_FOUND, "can not find message, maybe time range not correct")
    header = m.QueriedMessages(index_last_update_timestamp=newest_ms, index_last_update_phyoffset=0)
    return Reply(header, b"".join(found))


async def _begin(call: Call, partition: Partition, begin_ms: int) -> int | None:
    """The offset of the first record that may be meant."""
    where = await extent(call.shared.enode, partition)
    if where.start >= where.stable:
        return None
    if begin_ms <= 0:
        return where.start
    found = await call.shared.enode.offset_for_time(partition, begin_ms)
    return None if found is None else max(found[0], where.start)


def _has(record: Stored, request: m.QueryMessage) -> bool:
    if not request.begin_timestamp <= record.timestamp_ms <= request.end_timestamp:
        return False
    key = request.key
    if header_of(record, "UNIQ_KEY") == key:
        return True
    if request.is_unique_key or record.key is None:
        return False
    return key.encode() in record.key.split()


async def _dress(call: Call, topic: TopicState, partition: Partition) -> Dress:
    cluster = call.shared.cluster
    place = await call.shared.places.base(topic, partition.id)
    return Dress(rocket_name(topic.name), partition.id, place, cluster.host, cluster.name)
