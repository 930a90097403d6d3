"""Produce of one small batch is answered from its bytes, as the handler would answer it, or is left to it."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.protocols.kafka.server import front
from penstock.protocols.kafka.server.apis import produce
from penstock.protocols.kafka.wire.framing import request
from penstock.protocols.kafka.wire.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from tests.unit.kafka_front.kit import Kit, batch, run

NAME = "a-topic"
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "second partition": {"partition": 1},
    "acks of the leader": {"acks": 1},
    "large for a length of one byte": {"records": batch([b"x" * 300])},
    "many records": {"records": batch([b"x"] * 100)},
    "idempotent": {"records": batch(producer=(7, 0, 0))},
    "out of order": {"records": batch(producer=(7, 0, 5))},
}
LEFT: dict[str, dict[str, Any]] = {
    "no such topic": {"topic": "missing"},
    "no such partition": {"partition": 2},
    "an internal topic": {"topic": "__consumer_offsets"},
    "two topics": {"topics": 2},
    "two partitions": {"parts": 2},
    "compressed, or said to be": {"records": batch(attributes=1)},
    "more than 16 KiB": {"records": batch([b"x" * 20_000])},
    "a wrong checksum": {"records": batch(crc_flip=1)},
    "no batch": {"records": None},
    "acks that there are not": {"acks": 2},
    "a transaction": {"transactional_id": "tx"},
}


def asked(
    version: int,
    topic_id: bytes,
    *,
    topic: str = NAME,
    partition: int = 0,
    records: bytes | None = batch([b"one"]),
    acks: int = -1,
    topics: int = 1,
    parts: int = 1,
    transactional_id: str | None = None,
) -> bytes:
    of_topic = [ProduceRequestPartition(index=partition, records=records)] * parts
    called = topic_id if topic == NAME else b"\x7e" * 16
    data = [ProduceRequestTopic(name=topic, topic_id=called, partition_data=of_topic)] * topics
    message = ProduceRequest(acks=acks, timeout_ms=1_000, topic_data=data, transactional_id=transactional_id)
    return b"".join(request(message, version, "me")(0x01020304))


def answers(version: int, **given: Any) -> tuple[list[bytes], list[bool]]:
    """To the same request three times, without the topic's id; and whether the quick way answered it."""
    found: list[bytes] = []
    quick: list[bool] = []

    async def test(kit: Kit) -> None:
        topic = kit.store.create_topic(NAME, 2)
        data = asked(version, topic.id, **given)
        client = kit.client()
        for _ in range(3):
            answer = await client.send(data)
            assert answer is not None
            assert (topic.id in answer) == (version >= 13 and given.get("topic", NAME) == NAME)
            found.append(answer.replace(topic.id, bytes(16)))
        other = await produce.produce_single(kit.front._shared, client.session.connection, memoryview(data)[4:])
        quick.append(other is not None)

    run(test)
    return found, quick


@pytest.mark.lossless("bytes of two runs are compared, and what is lost differs between them")
@pytest.mark.parametrize("version", range(3, 14))
@pytest.mark.parametrize("case", CASES)
def test_the_quick_answer_is_that_of_the_handler(case: str, version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    short, quick = answers(version, **CASES[case])
    monkeypatch.setattr(front, "single", lambda key: None)
    long, _ = answers(version, **CASES[case])
    assert short == long
    assert quick == [version >= 5]


@pytest.mark.parametrize("version", [7, 12, 13])
@pytest.mark.parametrize("case", LEFT)
def test_what_is_unusual_is_left_to_the_handler(case: str, version: int) -> None:
    _, quick = answers(version, **LEFT[case])
    assert quick == [False]


@pytest.mark.lossless("where a look-up is lost, the handler is not asked")
@pytest.mark.parametrize("version", [7, 12, 13])
def test_a_request_that_is_cut_off_anywhere_is_left_to_the_handler(version: int) -> None:
    async def test(kit: Kit) -> None:
        whole = asked(version, kit.store.create_topic(NAME, 2).id)[4:]
        line = kit.client().session.connection
        for end in range(8, len(whole)):
            assert await produce.produce_single(kit.front._shared, line, memoryview(whole)[:end]) is None
        assert await produce.produce_single(kit.front._shared, line, memoryview(whole)) is not None

    run(test)


def test_rules_that_change_are_asked_again() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert (await kit.produce("t", batch([b"x" * 500]))).error_code == 0
        kit.store.set_config("t", {"max.message.bytes": "200"})
        assert (await kit.produce("t", batch([b"x" * 500]))).error_code == 10
        kit.store.set_config("t", {})
        kit.store.set_defaults({"max.message.bytes": "200"}, {})
        assert (await kit.produce("t", batch([b"x" * 500]))).error_code == 10
        kit.store.set_config("t", {"cleanup.policy": "compact"})
        assert (await kit.produce("t", batch(key=None))).error_code == 87

    run(test)
