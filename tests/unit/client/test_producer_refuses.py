"""What cannot be sent is refused where it is put in, in words, and takes nothing else with it."""

from __future__ import annotations

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
        ({"key": 5, "value": b""}, "key is int"),
        ({"value": b"x" * 2_000_000}, "max_request_bytes"),
        ({"value": b"", "headers": {"a": "text"}}, "Headers are text to bytes"),
        ({"value": b"", "headers": [(b"a", b"b")]}, "Headers are text to bytes"),
        ({"value": b"", "headers": {"\ud800": b""}}, "no Unicode text"),
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


@pytest.mark.parametrize(
    ("table", "complaint"),
    [
        (pa.table({"key": [b"a"]}), "only value is needed"),
        (pa.table({"value": [b"a"], "colour": [b"red"]}), "Columns to send are"),
        (pa.table({"value": [1.5]}), "wanted is binary or string"),
    ],
)
def test_a_wrong_table_is_refused(log: FakeLog, table: pa.Table, complaint: str) -> None:
    del log

    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            with pytest.raises(UsageError, match=complaint):
                await producer.send_batch("t", table)

    run(main())
