"""Records of bytes and nothing else are put in by a way of their own: what comes of it is what the usual way makes.

The usual way is what is left where that of their own takes none (`nothing_is_plain`).
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.client import AsyncProducer, Producer, ProducerInterceptor
from penstock.client.producer.accumulator import OVERHEAD, RecordAccumulator, nothing_is_plain
from penstock.client.producer.delivery import RecordMetadata
from penstock.client.producer.engine import ProducerEngine
from penstock.errors import Closed, PenstockError, UsageError
from penstock.records import decode_v2
from tests.conformance.fake_log import FakeLog
from tests.unit.client.test_producing import sends, stored
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"
Record = tuple[bytes | None, bytes | None]
MIXED: Sequence[Record] = [
    *((b"%04d" % number, b"v%d" % number) for number in range(250)),
    *((None, b"no key %d" % number) for number in range(30)),
    (b"", b""),
    (b"deleted", None),
    (b"large", b"x" * 5_000),
    *((b"%d" % (number % 7), b"y" * number) for number in range(200)),
]


@pytest.fixture(params=[True, False], ids=["plain", "usual"])
def plain(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether records go the way of their own. Tests with this run both."""
    is_plain: bool = request.param
    if not is_plain:
        monkeypatch.setattr(RecordAccumulator, "put_plain", nothing_is_plain)
    return is_plain


@pytest.fixture
def usual(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The values that were put in by the usual way."""
    seen: list[object] = []
    put = RecordAccumulator.put

    def noted(self: RecordAccumulator, topic: str, key: bytes | None, value: bytes | None, *rest: Any) -> object:
        seen.append(value)
        return put(self, topic, key, value, *rest)

    monkeypatch.setattr(RecordAccumulator, "put", noted)
    return seen


def in_the_log(log: FakeLog, topic: str) -> dict[int, list[tuple[object, ...]]]:
    """What each partition holds: keys, values and the order."""
    found: dict[int, list[tuple[object, ...]]] = {}
    for partition, entries in log.partitions.items():
        if partition.topic == topic and entries.batches:
            rows = decode_v2(b"".join(entries.batches)).batch
            found[partition.id] = list(zip(*(rows.column(name).to_pylist() for name in ("key", "value")), strict=True))
    return found


@pytest.mark.parametrize("topic", ["t", "t4"])
def test_both_ways_store_the_same(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, usual: list[object], topic: str
) -> None:
    keyed = [pair for pair in MIXED if pair[0] is not None]

    async def main() -> list[RecordMetadata]:
        async with AsyncProducer(ADDRESS, batch_size_bytes=3_000) as producer:
            deliveries = [await producer.send(topic, value, key) for key, value in keyed]
            return [await delivery for delivery in deliveries]

    before = run(main())
    first = in_the_log(log, topic)
    assert len(usual) < len(keyed) / 2
    monkeypatch.setattr(RecordAccumulator, "put_plain", nothing_is_plain)
    after = run(main())
    assert len(usual) > len(keyed)
    assert in_the_log(log, topic) == {partition: 2 * rows for partition, rows in first.items()}
    for one, other in zip(before, after, strict=True):
        assert (one.topic, one.partition) == (other.topic, other.partition)
        assert other.offset - one.offset == len(first[one.partition])


def test_records_without_keys_are_all_there_in_their_order(log: FakeLog, plain: bool) -> None:
    with Producer(ADDRESS, batch_size_bytes=3_000) as producer:
        deliveries = [producer.send("t", value, key=key) for key, value in MIXED]
        offsets = [delivery.result(30).offset for delivery in deliveries]
    assert offsets == list(range(len(MIXED)))
    assert in_the_log(log, "t") == {0: list(MIXED)}


def test_only_the_first_record_of_a_batch_and_what_is_not_plain_go_the_usual_way(
    log: FakeLog, usual: list[object]
) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=60_000, batch_size_bytes=10 * (OVERHEAD + 20)) as producer:
            for number in range(30):
                await producer.send("t", b"%020d" % number)
            await producer.send("t", bytearray(b"array"))  # type: ignore[arg-type]
            await producer.send("t", None, b"no value")
            await producer.send("t", b"headers", headers={"h": b""})
            await producer.send("t", b"partition", partition=0)
            await producer.send("t", b"time", timestamp_ms=1)

    run(main())
    firsts = [value for value in usual if isinstance(value, bytes) and value.isdigit()]
    assert firsts[0] == b"%020d" % 0
    assert len(firsts) <= 6  # what begins a batch and what fills it
    assert [value for value in usual if value not in firsts] == [b"array", None, b"headers", b"partition", b"time"]
    assert len(stored(log)) == 35


class Upper(ProducerInterceptor):
    pass


def test_where_records_have_to_be_looked_at_none_is_plain(log: FakeLog, usual: list[object]) -> None:
    async def main() -> None:
        for options in ({"value_serializer": bytes.upper}, {"interceptors": [Upper()]}):
            async with AsyncProducer(ADDRESS, linger_ms=1_000, **options) as producer:  # type: ignore[arg-type]
                for _ in range(5):
                    await producer.send("t", b"a")

    run(main())
    assert len(usual) == 10
    assert stored(log) == [b"A"] * 5 + [b"a"] * 5


WRONG: Sequence[tuple[object, object, object]] = [
    ("t", "text", None),
    ("t", b"v", "text"),
    ("t", 5, b"k"),
    (b"t", b"v", None),
    (["t"], b"v", None),
    ("", b"v", None),
    (None, b"v", None),
    ("t", b"x" * 2_000_000, None),
]


@pytest.mark.parametrize("record", WRONG, ids=lambda each: repr(each)[:30])
def test_a_wrong_record_beside_good_ones_is_refused_in_the_same_words(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, record: tuple[Any, Any, Any]
) -> None:
    def complaint() -> str:
        with Producer(ADDRESS, linger_ms=200) as producer:
            producer.send("t", b"good")
            with pytest.raises(UsageError) as caught:
                producer.send(*record)
            producer.send("t", b"good")
        return str(caught.value)

    told = complaint()
    monkeypatch.setattr(RecordAccumulator, "put_plain", nothing_is_plain)
    assert complaint() == told
    assert stored(log) == [b"good"] * 4


def test_a_record_waits_for_room_and_is_refused_after_the_end(log: FakeLog, plain: bool) -> None:
    log.faults["send"].extend([None] * 3)

    async def main() -> None:
        producer = AsyncProducer(ADDRESS, buffer_memory_bytes=2_000, batch_size_bytes=1_000, linger_ms=10)
        deliveries = [await producer.send("t", b"x" * 300) for _ in range(50)]
        assert producer.metrics().buffer_bytes <= 2_000
        await producer.close()
        assert [(await delivery).offset for delivery in deliveries] == list(range(50))
        assert producer.metrics().buffer_bytes == 0
        with pytest.raises(Closed):
            await producer.send("t", b"late")

    run(main())


def test_the_record_that_does_not_fit_ends_a_batch_which_does_not_wait(log: FakeLog, plain: bool) -> None:
    async def main() -> None:
        size = OVERHEAD + 100
        options = {"linger_ms": 60_000, "delivery_timeout_ms": 200_000, "batch_size_bytes": 4 * size + size // 2}
        async with AsyncProducer(ADDRESS, **options) as producer:  # type: ignore[arg-type]
            deliveries = [await producer.send("t", b"x" * 100) for _ in range(9)]
            await passing(1)
            assert [delivery.done() for delivery in deliveries] == [True] * 8 + [False]
            assert sends(log) == [[4], [4]]

    run(main())
    assert sends(log) == [[4], [4], [1]]


def test_many_threads_lose_and_mix_up_nothing(log: FakeLog, plain: bool) -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with Producer(ADDRESS, batch_size_bytes=2_000, linger_ms=1) as producer:
            threads = [threading.Thread(target=fill, args=(producer, mark)) for mark in b"abcd"]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            producer.flush(30)
    finally:
        sys.setswitchinterval(interval)
    rows = in_the_log(log, "t")[0]
    assert len(rows) == 4 * 1_000
    for mark in b"abcd":
        own = [(key, value) for key, value in rows if isinstance(key, bytes) and key[0] == mark]
        assert own == [pair(mark, number) for number in range(1_000)]


def fill(producer: Producer[bytes, bytes], mark: int) -> None:
    for number in range(1_000):
        key, value = pair(mark, number)
        producer.send("t", value, key)


def pair(mark: int, number: int) -> tuple[bytes, bytes]:
    return b"%c%d" % (mark, number), b"%d%c" % (number, mark)


def test_an_engine_that_fails_refuses_plain_records(log: FakeLog) -> None:
    async def main() -> None:
        producer: AsyncProducer[bytes, bytes] = AsyncProducer(ADDRESS, linger_ms=60_000, delivery_timeout_ms=200_000)
        delivery = await producer.send("t", b"a")
        engine = producer._engine
        assert isinstance(engine, ProducerEngine)
        engine._stop(Closed("broken"))
        with pytest.raises(Closed, match="broken"):
            await producer.send("t", b"b")
        with pytest.raises(PenstockError, match="broken"):
            await delivery
        await producer.close(0)

    run(main())
    assert in_the_log(log, "t") == {}
