"""Recorded messages, stored and sent: read alike one by one and as columns, and written back byte for byte."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest

from penstock import kernels
from penstock.protocols.rocketmq.wire.columns import decode
from penstock.protocols.rocketmq.wire.message_format import read_batch, read_stored, write_batch, write_stored
from penstock.protocols.rocketmq.wire.messages import Sent, read_fields
from penstock.protocols.rocketmq.wire.properties import parse_properties, read_record
from penstock.protocols.rocketmq.wire.rpc import METHODS, SEND_MESSAGE_V2
from tests.vectors.rocketmq_frames.recorded import Exchange, exchanges, files

WITH_MESSAGES = (11, 12, 33, 361)


def answers_with_messages() -> Iterator[tuple[Exchange, bytes]]:
    for name in files():
        for one in exchanges(name):
            if one.request.code in WITH_MESSAGES and one.answer is not None and one.answer.code == 0:
                yield one, bytes(one.answer.body)
            elif one.request.code == 39:
                yield one, bytes(one.request.body)


@pytest.mark.parametrize("which", ["pure", "numba"])
def test_stored_messages_read_alike_and_come_back_byte_for_byte(which: str) -> None:
    seen: Counter[tuple[int, bool]] = Counter()
    with kernels.using(which):
        for one, body in answers_with_messages():
            messages = list(read_stored(body))
            assert b"".join(map(write_stored, messages)) == body, one.where
            rows = decode([body]).batch.to_pylist()
            for row, message in zip(rows, messages, strict=True):
                said = read_record(message.properties, message.plain_body)
                assert (row["key"], row["value"], row["offset"]) == (said.key, said.value, message.queue_offset)
                assert [(pair["key"], pair["value"]) for pair in row["headers"]] == said.headers, one.where
                assert len(message.property_map.get("UNIQ_KEY", "F" * 32)) in {32, 56}, one.where
                seen[message.sys_flag, message.properties.endswith(b"\x02")] += 1
    assert seen == {
        (0, False): 108, (0, True): 141, (8, False): 2, (8, True): 3, (769, False): 2, (769, True): 2,
    }  # fmt: skip


def test_a_large_body_was_compressed_and_is_read_as_it_was() -> None:
    sizes = set()
    for name in ("4.9/b_send_large.broker", "5.4/b_send_large.broker"):
        for one in exchanges(name):
            if one.request.code == 11 and one.answer is not None and one.answer.code == 0:
                sizes |= {(len(each.body) < 4096, len(each.plain_body)) for each in read_stored(one.answer.body)}
    assert sizes == {(True, 5000), (True, 5120)} or len(sizes) == 1


def test_what_was_sent_is_what_is_stored_under_the_id_of_the_answer() -> None:
    stored = {
        (one.where[:3], message.offset_id): message
        for one, body in answers_with_messages()
        if one.request.code != 39
        for message in read_stored(body)
    }
    compared = 0
    for name in files():
        for one in exchanges(name):
            if one.request.code not in {310, 320} or one.answer is None or one.answer.code not in {0, 10, 11, 12}:
                continue
            header = read_fields(SEND_MESSAGE_V2.request, one.request.fields, letters=True)
            told = read_fields(Sent, one.answer.fields)
            inner = list(read_batch(one.request.body)) if header.batch else []
            for number, place in enumerate(told.msg_id.split(",")):
                message = stored.get((name[:3], place))
                if message is None or message.topic != header.topic:
                    continue
                assert message.queue_offset == told.queue_offset + number, one.where
                body = inner[number].body if inner else bytes(one.request.body)
                properties = inner[number].properties.decode() if inner else header.properties or ""
                assert message.body == body
                sent = parse_properties(properties)
                sent.pop("WAIT", None)
                assert sent.items() <= message.property_map.items(), one.where
                assert (message.born_ms, message.queue_id) == (header.born_timestamp, told.queue_id)
                compared += 1
    assert compared > 100


def test_recorded_batches_come_back_byte_for_byte() -> None:
    sizes = []
    for name in files():
        for one in exchanges(name):
            if one.request.code == 320:
                inner = list(read_batch(one.request.body))
                assert write_batch(inner) == bytes(one.request.body), one.where
                sizes.append(len(inner))
    assert len(sizes) == 4
    assert min(sizes) > 1
    assert METHODS[320].letters
