"""Partitions as librdkafka computes them, asked by its C interface; in turn; and as a function of the user's says."""

from __future__ import annotations

import ctypes
import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import confluent_kafka
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock import ConfigError, Producer, UsageError
from penstock.client.producer.routing import ANYWHERE, Chooser, chooser_of
from penstock.config import OptionValue, Partitioner
from tests.conformance.fake_log import FakeLog

ADDRESS = "fake://h:1"
HASHES = ("consistent", "consistent_random", "murmur2", "murmur2_random", "fnv1a", "fnv1a_random")
KEYS = st.none() | st.binary(max_size=40)


@pytest.fixture(scope="module")
def librdkafka() -> ctypes.CDLL:
    folder = Path(confluent_kafka.__file__).parent.parent / "confluent_kafka.libs"
    return ctypes.CDLL(str(next(folder.glob("librdkafka*"))))


def theirs(librdkafka: ctypes.CDLL, name: str, key: bytes | None, count: int) -> int:
    """What librdkafka says of a key that it hashes: neither topic nor opaque pointers are looked at then."""
    function = getattr(librdkafka, f"rd_kafka_msg_partitioner_{name}")
    function.restype = ctypes.c_int32
    function.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_int32] + [ctypes.c_void_p] * 2
    found: int = function(None, key, len(key or b""), count, None, None)
    return found


def goes_anywhere(name: str, key: bytes | None) -> bool:
    return name.endswith("_random") and (key is None or (name == "consistent_random" and not key))


def chooser(name: str) -> Chooser:
    found = chooser_of(Partitioner(name), "t")
    assert found is not None
    return found


@pytest.mark.parametrize("name", HASHES)
@given(keys=st.lists(KEYS, min_size=1, max_size=8), count=st.integers(1, 2**31 - 1) | st.integers(1, 20))
def test_a_key_goes_where_librdkafka_sends_it(
    librdkafka: ctypes.CDLL, name: str, keys: list[bytes | None], count: int
) -> None:
    expected = [ANYWHERE if goes_anywhere(name, key) else theirs(librdkafka, name, key, count) for key in keys]
    assert list(chooser(name).few(keys, count)) == expected
    assert chooser(name).column(pa.array(keys, pa.binary()), count).tolist() == expected
    assert chooser(name).column(pa.array([b"x", *keys], pa.binary())[1:], count).tolist() == expected


@pytest.mark.parametrize("name", ["random", "round_robin"])
@given(puts=st.lists(st.lists(KEYS, max_size=5), max_size=5), count=st.integers(1, 7))
def test_keys_are_ignored(name: str, puts: list[list[bytes | None]], count: int) -> None:
    few, columns = chooser(name), chooser(name)
    turn = itertools.count()
    for keys in puts:
        expected = [ANYWHERE if name == "random" else next(turn) % count for _ in keys]
        assert list(few.few(keys, count)) == expected
        assert columns.column(pa.array(keys, pa.binary()), count).tolist() == expected


def sent_to(rows: int, *, as_table: bool, key: Callable[[int], bytes | None], **options: OptionValue) -> list[int]:
    """The partition of each of so many records of a topic of four."""
    with Producer(ADDRESS, **options) as producer:
        if not as_table:
            deliveries = [producer.send("t4", b"v", key(number)) for number in range(rows)]
            return [delivery.result(5).partition for delivery in deliveries]
        table = {"key": pa.array([key(number) for number in range(rows)], pa.binary()), "value": [b"v"] * rows}
        batch = producer.send_batch("t4", pa.table(table))
        where: Counter[int] = Counter()
        for span in batch.result(5):
            where[span.partition] += span.end - span.start
        return sorted(where.elements())


@pytest.mark.parametrize("as_table", [False, True])
@pytest.mark.parametrize("name", ["consistent_random", "round_robin"])
def test_a_producer_is_told_by_name(log: FakeLog, librdkafka: ctypes.CDLL, name: str, as_table: bool) -> None:
    del log
    keys = [b"k%d" % number for number in range(40)]
    found = sent_to(40, as_table=as_table, key=keys.__getitem__, partitioner=name)
    if name == "round_robin":
        assert Counter(found) == dict.fromkeys(range(4), 10)
    else:
        expected = [theirs(librdkafka, name, key, 4) for key in keys]
        assert sorted(found) == sorted(expected)
        assert as_table or found == expected


@pytest.mark.parametrize("as_table", [False, True])
def test_a_function_of_yours_is_asked_for_each_record_that_names_no_partition(log: FakeLog, as_table: bool) -> None:
    asked: list[tuple[str, bytes | None, int]] = []

    def last(topic: str, key: bytes | None, partitions: int) -> int | None:
        asked.append((topic, key, partitions))
        return None if key == b"any" else partitions - 1

    with Producer(ADDRESS, partitioner=last) as producer:
        if as_table:
            named = pa.array([None, 1, None], pa.int32())
            rows = pa.table({"key": [b"a", b"b", b"any"], "value": [b"v"] * 3, "partition": named})
            places = [span.partition for span in producer.send_batch("t4", rows).result(5)]
            assert {1, 3} <= {*places}
        else:
            assert producer.send("t4", b"v", b"a").result(5).partition == 3
            assert producer.send("t4", b"v", b"b", partition=1).result(5).partition == 1
            assert producer.send("t4", b"v", b"any").result(5).partition in range(4)
    assert asked == [("t4", b"a", 4), ("t4", b"any", 4)]


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda *_: 1 / 0, "the partitioner raised ZeroDivisionError"),
        (lambda *_: "0", "but returned '0'"),
        (lambda *_: True, "but returned True"),
        (lambda *_: 2**70, "must return a partition"),
        (lambda *_: 4, "there is no partition 4"),
        (lambda *_: -1, "there is no partition -1"),
    ],
)
def test_what_a_function_does_wrong_is_its_records_error(
    log: FakeLog, function: Callable[[str, bytes | None, int], int], message: str
) -> None:
    del log
    with Producer(ADDRESS, partitioner=function) as producer:
        with pytest.raises(UsageError, match=message):
            producer.send("t4", b"v").result(5)
        assert producer.send("t4", b"v", partition=2).result(5).partition == 2


def test_another_name_is_refused(log: FakeLog) -> None:
    del log
    with pytest.raises(ConfigError, match="partitioner is 'best', expected one of log, random, round_robin"):
        Producer(ADDRESS, partitioner="best")
    with pytest.raises(ConfigError, match="expected one of"):
        Producer("kafka://h:1?partitioner.class=com.example.Mine")
    for name, expected in (
        ("org.apache.kafka.clients.producer.RoundRobinPartitioner", Partitioner.ROUND_ROBIN),
        ("fnv1a_random", Partitioner.FNV1A_RANDOM),
    ):
        producer = Producer(f"kafka://h:1?partitioner={name}")
        assert producer._inner._settings.config.partitioner is expected
