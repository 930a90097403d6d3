"""What the recordings' table says is in them: messages, offsets, events, errors, limits."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from penstock.protocols.tubemq.wire import record_columns, records, strings
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C, SendMessageRequestP2B
from penstock.protocols.tubemq.wire.protobuf import decode, has
from penstock.protocols.tubemq.wire.rpc import (
    CONSUMER_HEARTBEAT,
    CONSUMER_REGISTER,
    GET_MESSAGE,
    METHODS,
    PARTITION_HEARTBEAT,
    PRODUCER_HEARTBEAT,
    REGISTER_PARTITION,
    SEND_MESSAGE,
    Method,
    Status,
    read_answer,
    read_payload,
)
from tests.vectors.tubemq_frames.conversations import Exchange, exchanges

SIZES = (1, 16, 100, 1000, 9000)


def made(name: str, method: Method[Any, Any]) -> list[Exchange]:
    """The calls of one method that were answered with its own answer."""
    found = [one for one in exchanges(name) if one.call.method == method.number and len(one.call.payload)]
    return [one for one in found if one.answer.body[5] == Status.SUCCESS]


def sends() -> list[SendMessageRequestP2B]:
    return [decode(SEND_MESSAGE.request, one.call.payload) for one in made("producer-broker", SEND_MESSAGE)]


def test_the_producers_messages_are_what_was_sent() -> None:
    for number, sent in enumerate(sends()):
        found = records.unpack(sent.data, sent.flag)
        assert len(found.value or b"") == SIZES[number % 5]
        assert (sent.flag, found.key) == (1 if number % 4 else 0, None)
        names = [name for name, _ in found.headers]
        if number % 4 in {1, 3}:
            assert names[-2:] == ["seq", "name"]
            assert dict(found.headers)["name"] == "café".encode()
        if number % 4 in {2, 3}:
            assert names[0] == "tubemq.filter"
            assert found.filter_item == sent.msg_type in {"blue", "red"}
            assert sent.msg_time == f"20261120{10:02d}{number:02d}"
            assert found.timestamp_ms % 60_000 == 0
            assert pa.scalar(found.timestamp_ms, pa.timestamp("ms")).as_py().strftime("%Y%m%d%H%M") == sent.msg_time
        else:
            assert (found.filter_item, found.timestamp_ms) == (None, -1)


def test_offsets_grow_by_the_size_of_an_index_record() -> None:
    answers = [read_answer(SEND_MESSAGE, one.answer) for one in made("producer-broker", SEND_MESSAGE)]
    assert [answer.append_offset for answer in answers] == [28 * number for number in range(20)]
    assert len({answer.message_id for answer in answers}) == 20


@pytest.mark.parametrize(
    "name", ["consumer-broker", "filter-broker", "balanced-broker", "manual-broker", "flow-broker"]
)
def test_answers_full_of_messages_read_alike_one_by_one_and_as_columns(kernel: str, name: str) -> None:
    del kernel
    rows = 0
    for one in made(name, GET_MESSAGE):
        payload = read_payload(GET_MESSAGE, one.answer)
        whole = decode(GetMessageResponseB2C, payload)
        messages = records.read_messages(payload)
        found = record_columns.decode(messages)
        assert (found.corrupt, found.filtered, messages.count) == (0, 0, len(whole.messages))
        assert found.message_ids.to_pylist() == [message.message_id for message in whole.messages]
        assert found.batch.column("offset").to_pylist() == [
            whole.curr_offset + 28 * number for number in range(messages.count)
        ]
        table = found.batch.to_pylist()
        for row, message in zip(table, whole.messages, strict=True):
            single = records.unpack(message.pay_load_data, message.flag)
            assert records.checksum(message.pay_load_data) == message.check_sum
            assert (row["key"], row["value"]) == (single.key, single.value)
            assert [(pair["key"], pair["value"]) for pair in row["headers"]] == list(single.headers)
            assert row["timestampType"] == (-1 if single.timestamp_ms == -1 else 0)
        whole.ClearField("messages")  # type: ignore[attr-defined]
        assert messages.answer == whole
        rows += messages.count
    assert rows > 0


def test_what_was_sent_is_what_two_consumers_received() -> None:
    received = set()
    for one in made("consumer-broker", GET_MESSAGE):
        found = record_columns.decode(records.read_messages(read_payload(GET_MESSAGE, one.answer)))
        received |= {
            (value.as_py(), str(headers))
            for value, headers in zip(found.batch["value"], found.batch["headers"], strict=True)
        }
    assert len(received) == 20
    assert {value for value, _ in received} == {records.unpack(sent.data, sent.flag).value for sent in sends()}


def test_the_master_tells_members_of_partitions_by_events() -> None:
    beats = [read_answer(CONSUMER_HEARTBEAT, one.answer) for one in made("consumer-master", CONSUMER_HEARTBEAT)]
    events = [beat.event for beat in beats if has(beat, "event")]
    kinds = [event.op_type for event in events]
    assert kinds == [10, 20, 10, 10]
    held = [strings.parse_held(text) for event in events for text in event.subscribe_info]
    assert {one.group for one in held} == {"pair"}
    assert {one.located.partition.id for one in held} == {0, 1}
    assert [strings.format_held(one) for one in held] == [text for event in events for text in event.subscribe_info]


def test_strings_of_producers_read_and_write_alike() -> None:
    beats = [read_answer(PRODUCER_HEARTBEAT, one.answer) for one in made("producer-master", PRODUCER_HEARTBEAT)]
    texts = {text for beat in beats for text in beat.topic_infos}
    published = {text: strings.parse_published(text) for text in texts}
    assert {one.topic: (one.placements[0].stores, one.placements[0].partitions) for one in published.values()} == {
        "demo": (1, 2)
    }
    for text, one in published.items():
        assert strings.format_published(one) == text


def test_codes_of_the_errors_are_those_that_were_provoked() -> None:
    seen: dict[int, list[int]] = {}
    for name in ("errors-master", "errors-broker"):
        for one in exchanges(name):
            method = METHODS.get(one.call.method)
            if method is not None and len(one.call.payload) and one in made(name, method):
                seen.setdefault(method.number, []).append(read_answer(method, one.answer).err_code)
    assert set(seen[4]) == {200, 400, 424, 425, 426, 431}
    assert set(seen[13]) == {200, 400, 403}
    assert set(seen[15]) == {200, 400, 403, 410, 411, 412, 500}
    assert set(seen[17]) == {403, 404, 411, 412}
    assert set(seen[18]) == {401}


def test_failures_of_a_heartbeat_name_their_partitions() -> None:
    answers = [read_answer(PARTITION_HEARTBEAT, one.answer) for one in made("errors-broker", PARTITION_HEARTBEAT)]
    failed = [strings.parse_failure(text) for answer in answers for text in answer.failure_info]
    assert {code for code, _ in failed} == {411, 412}
    assert [strings.format_failure(code, located) for code, located in failed] == [
        text for answer in answers for text in answer.failure_info
    ]


def test_registering_in_between_records_begins_at_the_one_before() -> None:
    pairs = [
        (decode(REGISTER_PARTITION.request, one.call.payload), read_answer(REGISTER_PARTITION, one.answer))
        for one in made("errors-broker", REGISTER_PARTITION)
    ]
    begun = {asked.curr_offset: said.curr_offset for asked, said in pairs if has(asked, "curr_offset") and said.success}
    assert begun[30] == 28


def test_flow_control_is_sent_once_and_then_a_blank() -> None:
    registered = [read_answer(CONSUMER_REGISTER, one.answer) for one in made("flow-master", CONSUMER_REGISTER)]
    beats = [read_answer(CONSUMER_HEARTBEAT, one.answer) for one in made("flow-master", CONSUMER_HEARTBEAT)]
    assert registered[0].def_flow_control_info.startswith('[{"type":0')
    assert {beat.def_flow_control_info for beat in beats} == {" "}
    assert {beat.def_flow_check_id for beat in beats} == {registered[0].def_flow_check_id}
    limited = [read_answer(GET_MESSAGE, one.answer) for one in made("flow-broker", GET_MESSAGE)]
    assert limited[0].err_code == 200
    assert (452, 1500) in {(answer.err_code, answer.min_limit_time) for answer in limited}
