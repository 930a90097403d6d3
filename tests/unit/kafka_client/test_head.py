"""The first batch of a fetch alone, for who has not loaded yet what decodes the others: nothing is lost in between."""

from __future__ import annotations

import subprocess
import sys

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.client import Producer
from penstock.interfaces import HasHead
from penstock.interfaces.client import ReadFrom
from penstock.model import Codec, Partition
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.fetch import KafkaFetched
from penstock.protocols.kafka.wire.fetch import FetchResponsePartition
from penstock.records import encode_v2
from penstock.testing import Broker

PARTITION = Partition("topic", 3)


def run_of(counts: list[int], codec: Codec = Codec.NONE) -> bytes:
    data, base = b"", 0
    for count in counts:
        values = pa.array([b"%d" % n for n in range(base, base + count)], pa.binary())
        rows = pa.RecordBatch.from_arrays([values, values], names=["key", "value"])
        data += encode_v2(rows, base_offset=base, timestamp_ms=5, codec=codec)
        base += count
    return data


def fetched(data: bytes, offset: int = 0) -> KafkaFetched:
    told = FetchResponsePartition(records=memoryview(data), high_watermark=9_999)
    return KafkaFetched(ReadFrom(PARTITION, offset, 1), told, None, KafkaOptions())


@given(counts=st.lists(st.integers(1, 40), min_size=2, max_size=5), where=st.integers(0, 39), cut=st.integers(0, 30))
def test_the_head_and_what_is_left_are_all(counts: list[int], where: int, cut: int) -> None:
    data = run_of(counts)
    data = data[: len(data) - cut]
    offset = min(where, counts[0] - 1)
    whole = fetched(data, offset)
    parted = fetched(data, offset)
    assert isinstance(parted, HasHead)
    promised = parted.next_offset
    head = parted.head(1_000)
    assert head is not None
    assert parted.offset == counts[0]
    assert parted.next_offset == promised
    rest, end = parted.decode()
    all_of_them, same_end = whole.decode()
    assert [*head, *rest] == list(all_of_them)
    assert end == same_end


def test_what_is_not_plain_has_no_head_and_stays_as_it_is() -> None:
    plain = run_of([5, 5])
    damaged = plain[:70] + bytes([plain[70] ^ 1]) + plain[71:]
    for data in (run_of([5]), run_of([5, 5], Codec.ZSTD), damaged, run_of([2_000, 5]), b"", b"\0" * 100):
        one = fetched(data)
        assert one.head(1_000) is None
        assert one.offset == 0


READ = """
import sys
from penstock import Consumer
offsets, there = [], []
with Consumer(sys.argv[1] + "/topic", auto_offset_reset="earliest", max_poll_records=70) as consumer:
    while len(offsets) < 3_000:
        offsets += [message.offset for message in consumer.poll(20)]
        there.append("pyarrow" in sys.modules)
        assert consumer.position(list(consumer.assignment())[0]) == len(offsets)
    print(offsets == list(range(3_000)), there[0], there[-1])
"""


def fill(broker: Broker) -> None:
    """Thirty batches of a hundred records."""
    broker.create_topic("topic", partitions=1)
    with Producer(broker.address) as producer:
        for n in range(0, 3_000, 100):
            for each in range(n, n + 100):
                producer.send("topic", b"%d" % each * 100)
            producer.flush()


def test_a_fresh_consumer_hands_out_the_first_records_and_loads_then() -> None:
    with Broker() as broker:
        fill(broker)
        run = subprocess.run([sys.executable, "-c", READ, broker.address], capture_output=True, text=True, check=False)
    assert run.stdout.strip() == "True False True", run.stderr


@given(counts=st.lists(st.integers(1, 60), min_size=1, max_size=5), where=st.integers(0, 59), cut=st.integers(0, 30))
def test_who_takes_a_handful_at_a_time_gets_all_of_it_as_heads(counts: list[int], where: int, cut: int) -> None:
    data = run_of(counts)
    data = data[: len(data) - cut]
    offset = min(where, counts[0] - 1)
    whole, parted = fetched(data, offset), fetched(data, offset)
    promised, found = parted.next_offset, []
    while (head := parted.head(1)) is not None:
        assert parted.next_offset == promised
        found += list(head)
    if parted.offset == promised:
        assert found == list(whole.decode()[0])
    else:
        assert not found  # not one whole batch


def test_who_takes_many_gets_one_head_and_not_all() -> None:
    one = fetched(run_of([5, 5, 5]))
    assert one.head(33) is not None
    assert one.head(33) is None
    assert one.head(32) is not None
    assert [message.offset for message in one.decode()[0]] == [10, 11, 12, 13, 14]
    assert fetched(run_of([5])).head(33) is None
    assert fetched(run_of([5])).head(32) is not None


def test_who_takes_one_record_at_a_time_never_loads_what_decodes_columns() -> None:
    with Broker() as broker:
        fill(broker)
        run = subprocess.run(
            [sys.executable, "-c", READ.replace("=70", "=1"), broker.address],
            capture_output=True,
            text=True,
            check=False,
        )
    assert run.stdout.strip() == "True False False", run.stderr
