"""What cannot be sent is refused where it is put in, in words, and takes nothing else with it."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from penstock.client import AsyncProducer
from penstock.errors import UsageError
from penstock.model import Partition
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        ({"value": "text"}, r"text.encode\(\)"),
        ({"key": 5, "value": b""}, "key must be bytes or None, got int"),
        ({"value": b"x" * 2_000_000}, "max_request_bytes"),
        ({"value": b"", "headers": {"a": "text"}}, "header 'a' must be bytes or None, got str"),
        ({"value": b"", "headers": [(b"a", b"b")]}, "Headers are text to bytes"),
        ({"value": b"", "headers": {"\ud800": b""}}, "no Unicode text"),
        ({"value": b"", "headers": [("a",)]}, "must be a pair"),
        ({"value": b"", "headers": 5}, "headers must be a dict or a list of pairs, got int"),
        ({"value": b"", "headers": b"ab"}, "headers must be a dict or a list of pairs, got bytes"),
        ({"value": b"", "partition": "1"}, r"partition must be a whole number, got str \('1'\)"),
        ({"value": b"", "partition": True}, "partition must be a whole number, got bool"),
        ({"value": b"", "partition": 1.0}, "partition must be a whole number, got float"),
        ({"value": b"", "timestamp_ms": "now"}, "timestamp_ms must be a whole number, got str"),
        ({"value": b"", "timestamp_ms": 1.5}, "timestamp_ms must be a whole number, got float"),
        ({"value": b"", "timestamp_ms": datetime.now(UTC)}, r"int\(when.timestamp\(\)"),
        ({"value": b"", "partition": -1}, "no partition -1"),
        ({"value": b"", "partition": 2**31}, "no partition 2147483648"),
        ({"value": b"", "timestamp_ms": 2**70}, "is no timestamp"),
        ({"value": b"", "timestamp_ms": -(2**63)}, "is no timestamp"),
    ],
)
def test_a_wrong_record_is_refused_where_it_is_put_in(log: FakeLog, record: dict[str, object], complaint: str) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            with pytest.raises(UsageError, match=complaint):
                await producer.send("t", **record)  # type: ignore[arg-type]

    run(main())
    assert log.partitions[Partition("t", 0)].end == 0


def test_a_partition_that_does_not_exist_fails_its_record(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            delivery = await producer.send("t4", b"a", partition=4)
            with pytest.raises(UsageError, match="partitions 0 to 3"):
                await delivery

    run(main())
    assert log.partitions[Partition("t4", 0)].end == 0


TOPICS = [
    (b"t", r"a topic must be a string, got bytes \(b't'\). Decode it first: topic.decode\(\)"),
    (None, "a topic must be a string, got None"),
    (5, r"a topic must be a string, got int \(5\)"),
    (["t"], "a topic must be a string, got list"),
    ("", "name is empty"),
    ("\ud800", "half of a surrogate pair"),
]


@pytest.mark.parametrize(("topic", "complaint"), TOPICS)
@pytest.mark.parametrize("by_table", [False, True], ids=["send", "send_batch"])
def test_what_is_no_topic_is_refused_at_once_and_harms_nobody(
    log: FakeLog, topic: Any, complaint: str, by_table: bool
) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=1_000) as producer:
            before = await producer.send("t", b"a")
            told = complaint if topic is not None or not by_table else "no topic is named"
            with pytest.raises(UsageError, match=told):
                await (producer.send_batch(topic, pa.table({"value": [b"a"]})) if by_table else producer.send(topic))
            with pytest.raises(UsageError, match=complaint):
                await producer.partitions_for(topic)
            await asyncio.gather(before, await producer.send("t", b"b"))

    run(main())
    assert log.partitions[Partition("t", 0)].end == 2


def test_a_partition_that_there_is_not_takes_no_other_record_of_its_batch_with_it(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=1_000) as producer:
            sent = [await producer.send("t4", b"", partition=each) for each in (0, 9, 1, 77, 0)]
            for delivery, wrong in zip(sent, (None, 9, None, 77, None), strict=True):
                if wrong is None:
                    await delivery
                else:
                    with pytest.raises(UsageError, match=f"no partition {wrong} .topic t4.. The topic has partitions"):
                        await delivery

    run(main())
    assert [log.partitions[Partition("t4", each)].end for each in range(4)] == [2, 1, 0, 0]


def test_rows_that_cannot_be_given_to_a_partition_take_nothing_else_with_them(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            wrong = await producer.send_batch("t", pa.table({"value": [b"a"], "partition": [1.5]}))
            with pytest.raises(UsageError, match="column partition must hold integers, got double"):
                await wrong
            await (await producer.send("t", b"b"))

    run(main())
    assert log.partitions[Partition("t", 0)].end == 1


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (pa.table({"key": [b"a"]}), "only value is needed"),
        (pa.table({"value": [b"a"], "colour": [b"red"]}), "Columns to send are"),
        (pa.table({"value": [1.5]}), "must hold binary or string"),
    ],
)
def test_a_wrong_table_is_refused(log: FakeLog, table: pa.Table, complaint: str) -> None:
    del log

    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            with pytest.raises(UsageError, match=complaint):
                await producer.send_batch("t", table)

    run(main())
