"""Produce of one small batch, the most frequent request of all: the checks and the answer of `produce`, and no more.

What is in any way unusual (several topics, transactions, compression, a refusal) is left to `produce`, which alone says
what is wrong. Source: Kafka protocol, Produce v5-v13 (topic ids in v13: KIP-516).
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Mapping
from typing import Final, NamedTuple

from penstock.columnar.checked import Checked
from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.protocols.kafka.front import why
from penstock.protocols.kafka.front.apis.produce import answer_of
from penstock.protocols.kafka.front.call import Call, Line, Shared, is_internal
from penstock.protocols.kafka.front.incoming import Rules, check_single, rules_for
from penstock.protocols.kafka.messages.headers import read_header, response
from penstock.protocols.kafka.messages.produce import ProduceResponse, ProduceResponsePartition, ProduceResponseTopic
from penstock.protocols.kafka.messages.template import Template
from penstock.seams.enode import TopicState
from penstock.seams.framing import Pieces
from penstock.seams.refusals import Asker

__all__ = ["produce"]

_PRODUCE: Final = 0
_FIRST, _FLEXIBLE, _IDS_SINCE, _LAST = 5, 9, 13, 13
_HEAD: Final = struct.Struct(">hhih")
"""API key, version, correlation id, length of the client id."""
_OLD: Final = struct.Struct(">hhiih")
_NEW: Final = struct.Struct(">BBhiBB")
"""What follows it: (no tags,) no transactional id, acks, timeout, how many topics, length of the name."""
_BY_ID: Final = struct.Struct(">BBhiB16s")
"""With the id of the topic instead of its name."""
_OLD_PART: Final = struct.Struct(">iii")
_NEW_PART: Final = struct.Struct(">Bi")
"""How many partitions, which one(, how many bytes)."""
_RUN: Final = struct.Struct(">ihqqq")
"""Of the answer: partition, code, base offset, append time, log start."""
_SHOWN: Final = (0x5A5A5A5A, 0x5A5A, *(3 * (0x5A5A5A5A_5A5A5A5A,)))
_NO_TAGS: Final = b"\0\0\0"
_KEPT: Final = 4_096


class _Asked(NamedTuple):
    topic: str | bytes
    """Name, or id from v13 on."""
    partition: int
    records: memoryview
    version: int
    correlation: int


async def produce(shared: Shared, line: Line, body: memoryview) -> Pieces | None:
    """The answer, or None for a request that `apis.produce.produce` has to look at."""
    asked = _read(body)
    if asked is None:
        return None
    enode, called = shared.enode, asked.topic
    try:
        topic = await (enode.topic(called) if isinstance(called, str) else enode.topic_by_id(called))
        if topic is None or is_internal(topic.name) or not 0 <= asked.partition < topic.partitions:
            return None
        batch = _checked(shared, asked, topic.name, _rules(shared, topic, await enode.defaults()))
    except PenstockError:
        return None
    if batch is None or (batch.header.producer_id >= 0 and not enode.abilities.sequences):
        return None  # what came before such a batch is for `produce` to know
    partition = Partition(topic.name, asked.partition)
    (result,) = await enode.append_all(((partition, batch),))
    if isinstance(result, PenstockError):
        why.begin()  # what is noted here is no other request's
        said = await answer_of(Call(shared, line, asked.version, "", shared.pace()), partition, result)
        shared.meter.refused(_PRODUCE, said.error_code)
        shared.meter.tell(
            Asker(read_header(body)[0].client_id or "", line.address),
            _PRODUCE,
            said.error_code,
            topic=partition.topic,
            partition=partition.id,
            why=result.message,
            advice=result.hint or "",
        )
        return response(_around(called, said), asked.version, asked.correlation)
    packed = _template(asked.version, called).packed(
        asked.correlation,
        asked.partition,
        0,
        result.base_offset,
        result.append_time_ms,
        result.log_start_offset,
    )
    return (packed,)


def _read(body: memoryview) -> _Asked | None:
    """What is asked, where it is one batch for one partition, to be acknowledged."""
    try:
        _, version, correlation, size = _HEAD.unpack_from(body)
        at = _HEAD.size + max(size, 0)
        topic: str | bytes
        if _IDS_SINCE <= version <= _LAST:
            tags, named, acks, _, topics, topic = _BY_ID.unpack_from(body, at)
            at += _BY_ID.size
            parts, partition = _NEW_PART.unpack_from(body, at)
            begin, size = _length(body, at + _NEW_PART.size)
            usual = not tags and not named and topics == parts == 2 and bytes(body[begin + size :]) == _NO_TAGS
        elif _FLEXIBLE <= version < _IDS_SINCE:
            tags, named, acks, _, topics, name = _NEW.unpack_from(body, at)
            at += _NEW.size + name - 1
            parts, partition = _NEW_PART.unpack_from(body, at)
            usual = not tags and not named and topics == parts == 2 and 1 < name < 128
            begin, size = _length(body, at + _NEW_PART.size)
            name -= 1
            usual = usual and bytes(body[begin + size :]) == _NO_TAGS
            topic = str(body[at - name : at], "utf-8")
        elif _FIRST <= version < _FLEXIBLE:
            named, acks, _, topics, name = _OLD.unpack_from(body, at)
            at += _OLD.size + name
            parts, partition, size = _OLD_PART.unpack_from(body, at)
            usual = named == -1 and topics == parts == 1 and name > 0
            begin = at + _OLD_PART.size
            topic = str(body[at - name : at], "utf-8")
        else:
            return None
        if not usual or acks not in (-1, 1) or not 0 < size <= len(body) - begin:
            return None
        return _Asked(topic, partition, body[begin : begin + size], version, correlation)
    except (struct.error, IndexError, UnicodeDecodeError):
        return None


def _length(body: memoryview, at: int) -> tuple[int, int]:
    """(where the bytes begin, how many they are); 0 for a length of more than three bytes."""
    value = shift = 0
    while shift < 21:
        byte = body[at]
        at += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return at, value - 1
        shift += 7
    return at, 0


def _checked(shared: Shared, asked: _Asked, topic: str, rules: Rules) -> Checked | None:
    batch = check_single(asked.records, rules, shared.services.runtime.now_ms())
    if batch is not None and batch.header.producer_id >= 0 and not shared.enode.abilities_of(topic).numbered:
        return None
    return batch


def _rules(shared: Shared, topic: TopicState, defaults: Mapping[str, str]) -> Rules:
    """The topic's, which are made anew only when it, or what holds for all, is another one."""
    known = shared.rules.get(topic.name)
    if known is not None and known[0] is topic and known[1] is defaults:
        return known[2]
    if len(shared.rules) >= _KEPT:
        shared.rules.clear()
    config = {**defaults, **topic.config} if defaults else topic.config
    rules = rules_for(config, shared.options)
    shared.rules[topic.name] = (topic, defaults, rules)
    return rules


def _around(topic: str | bytes, part: ProduceResponsePartition) -> ProduceResponse:
    """``topic``: its name, or its id."""
    found = (
        ProduceResponseTopic(name=topic, partition_responses=[part])
        if isinstance(topic, str)
        else ProduceResponseTopic(topic_id=topic, partition_responses=[part])
    )
    return ProduceResponse(responses=[found])


@functools.lru_cache(_KEPT)
def _template(version: int, topic: str | bytes) -> Template:
    index, code, base, time, start = _SHOWN
    shown = ProduceResponsePartition(
        index=index, error_code=code, base_offset=base, log_append_time_ms=time, log_start_offset=start
    )
    return Template(_around(topic, shown), version, _RUN, _SHOWN)
