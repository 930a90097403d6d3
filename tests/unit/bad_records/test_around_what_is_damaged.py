"""What cannot be decoded costs itself only: by protocol, kind and value of ``on_bad_record``."""

from __future__ import annotations

import pickle

import pytest

from penstock.client.bad_records import BadRecords
from penstock.config import OnBadRecord
from penstock.config.client import ClientLog
from penstock.errors import CorruptBatch, DeserializationError
from penstock.interfaces.client import ReadFrom, not_whole
from penstock.model import Record, TimestampType
from penstock.protocols import protocol
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.client.fetch import KafkaFetched
from penstock.protocols.kafka.wire.fetch import FetchResponsePartition
from penstock.records import Messages
from penstock.records.messages import Deserializers, with_deserializers
from tests.unit.bad_records.answers import HERE, KINDS, Damaged, Open, batch, kafka, rocketmq, stored

every_kind = pytest.mark.parametrize("damaged", [pytest.param(each, id=kind) for kind, each in KINDS.items()])


def read(open_at: Open, bad_records: BadRecords) -> list[Messages]:
    """Read from 0 to where everything was taken, as often as it takes, always from where reading goes on."""
    found, offset = [], 0
    while True:
        fetched = open_at(offset)
        if not fetched.size:
            return found
        messages, offset, _ = bad_records.decode(fetched)
        found.append(messages)
        if offset >= fetched.next_offset:
            return found


def values(runs: list[Messages]) -> list[bytes | None]:
    return [record.value for run in runs for record in run]


@every_kind
def test_skipping_leaves_out_what_is_damaged_and_nothing_else(
    damaged: Damaged, caplog: pytest.LogCaptureFixture
) -> None:
    bad_records = BadRecords(OnBadRecord.SKIP)
    assert values(read(damaged.open, bad_records)) == [*damaged.good[0], *damaged.good[1]]
    assert bad_records.total == damaged.records
    (line,) = caplog.messages
    assert f"at offset {damaged.bad[0]}" in line
    assert damaged.says in line


@every_kind
def test_the_raw_bytes_come_with_a_reason(damaged: Damaged) -> None:
    bad_records = BadRecords(OnBadRecord.RAW)
    records = [record for run in read(damaged.open, bad_records) for record in run]
    assert [record.value for record in records] == [*damaged.good[0], damaged.bad[2], *damaged.good[1]]
    raw = records[len(damaged.good[0])]
    assert raw.offset == damaged.bad[0]
    name, reason = raw.headers[-1]
    assert name == "penstock.error"
    assert reason is not None
    assert damaged.says in reason.decode()
    assert dict(raw.headers).get("penstock.error.records") == (b"3" if damaged.records == 3 else None)
    assert bad_records.total == damaged.records


@every_kind
def test_failing_first_gives_what_is_before_and_then_stays_there(damaged: Damaged) -> None:
    bad_records = BadRecords(OnBadRecord.FAIL)
    messages, offset, _ = bad_records.decode(damaged.open(0))
    assert ([each.value for each in messages], offset) == (damaged.good[0], damaged.bad[0])
    for _ in range(2):
        with pytest.raises(CorruptBatch) as raised:
            bad_records.decode(damaged.open(offset))
        assert (raised.value.offset, raised.value.next_offset) == damaged.bad[:2]
        assert damaged.says in str(raised.value)
        assert f"(topic t, partition 0, offset {damaged.bad[0]}" in str(raised.value)
        assert f"seek() to offset {damaged.bad[1]}" in str(raised.value)
        assert "on_bad_record" in str(raised.value)
    behind, _, _ = bad_records.decode(damaged.open(damaged.bad[1]))
    assert [each.value for each in behind] == damaged.good[1]
    assert bad_records.total == 0


@every_kind
def test_columns_are_those_that_were_asked_for(damaged: Damaged) -> None:
    names = ["offset", "value"]
    for choice, count in ((OnBadRecord.SKIP, 4), (OnBadRecord.RAW, 5)):
        bad_records, offset, rows = BadRecords(choice), 0, 0
        while offset < damaged.open(0).next_offset:
            messages, offset, _ = bad_records.decode(damaged.open(offset), columns=names)
            table = messages.to_arrow(names)
            assert table.schema.names == names
            rows += table.num_rows
        assert rows == count


@every_kind
def test_a_range_that_ends_before_the_damage_knows_nothing_of_it(damaged: Damaged) -> None:
    messages, offset, _ = BadRecords(OnBadRecord.FAIL).decode(damaged.open(0), stop=damaged.bad[0])
    assert ([each.value for each in messages], offset) == (damaged.good[0], damaged.bad[0])


@pytest.mark.parametrize(
    ("skips", "what"), [(False, OnBadRecord.FAIL), (True, OnBadRecord.SKIP)], ids=["kafka", "rocketmq and tubemq"]
)
def test_by_itself_a_client_does_as_the_logs_own(skips: bool, what: OnBadRecord) -> None:
    damaged = KINDS["rocketmq, no zlib stream"]
    bad_records = BadRecords(skips=skips)
    read_values = [each.value for each in bad_records.decode(damaged.open(0))[0]]
    assert read_values == [*damaged.good[0], *(damaged.good[1] if what is OnBadRecord.SKIP else [])]
    assert bad_records.refused is None  # what a deserializer refuses is always an error


def test_what_a_log_means_by_itself_is_its_own_clients_way() -> None:
    assert {name: protocol(name).skips_bad_records for name in ("kafka", "rocketmq", "tubemq")} == {
        "kafka": False,
        "rocketmq": True,
        "tubemq": True,
    }


def test_everything_damaged_still_moves_on() -> None:
    all_bad = rocketmq(*(stored(offset, b"?", 1) for offset in range(100)))
    bad_records = BadRecords(OnBadRecord.SKIP)
    messages, offset, _ = bad_records.decode(all_bad(0))
    assert (len(messages), offset, bad_records.total) == (0, 100, 100)
    assert messages.next_offsets == {all_bad(0).partition: 100}


def test_every_second_batch_damaged_is_read_in_one_go() -> None:
    data = b""
    for base in range(0, 60, 2):
        one = batch(base, 2)
        one[-3] ^= base // 2 % 2
        data += bytes(one)
    bad_records = BadRecords(OnBadRecord.SKIP)
    messages, offset, _ = bad_records.decode(kafka_of(data, 60)(2))
    assert ([each.offset for each in messages], offset) == ([n for n in range(2, 60) if n // 2 % 2 == 0], 60)
    assert bad_records.total == 30


def kafka_of(data: bytes, end: int) -> Open:
    told = FetchResponsePartition(records=memoryview(data), high_watermark=end)
    return lambda offset: KafkaFetched(ReadFrom(HERE, offset, 1), told, None, KafkaOptions())


def test_a_committed_slice_covers_what_was_skipped_behind_it() -> None:
    bad_last = rocketmq(stored(0, b"a"), stored(1, b"b"), stored(2, b"?", 1))
    messages, _, _ = BadRecords(OnBadRecord.SKIP).decode(bad_last(0))
    assert messages[1:].next_offsets == {bad_last(0).partition: 3}


def test_a_warning_a_minute_and_partition_counts_what_it_did_not_say(caplog: pytest.LogCaptureFixture) -> None:
    clock = [0.0]
    bad_records = BadRecords(OnBadRecord.SKIP, log=ClientLog("penstock.consumer", "[me] "), now=lambda: clock[0])
    damaged = KINDS["rocketmq, no zlib stream"]
    for clock[0] in (0.0, 1.0, 59.0, 61.0):
        bad_records.decode(damaged.open(0))
    first, second = caplog.messages
    assert first.startswith("[me] skipping a record of t-0")
    assert "2 more since" in second
    assert bad_records.total == 4


# Deserializers.


def of(*payloads: bytes) -> Messages:
    records = [Record("t", 0, n, 5, None, each, (), TimestampType.CREATE) for n, each in enumerate(payloads)]
    return Messages.of_records(HERE, records, len(records))


def number(payload: bytes) -> int:
    return int(payload)


def deserialized(choice: OnBadRecord, *payloads: bytes) -> tuple[Messages[bytes, int], BadRecords]:
    bad_records = BadRecords(choice, log=ClientLog("penstock.consumer"))
    return with_deserializers(of(*payloads), Deserializers(None, number, bad_records.refused)), bad_records


@pytest.mark.parametrize("choice", [OnBadRecord.AUTO, OnBadRecord.FAIL])
def test_what_a_deserializer_refuses_is_an_error_by_default(choice: OnBadRecord) -> None:
    messages, _ = deserialized(choice, b"1", b"two", b"3")
    records = iter(messages)
    assert next(records).value == 1
    with pytest.raises(DeserializationError, match=r"offset 1\).*on_bad_record"):
        next(records)


def test_what_a_deserializer_refuses_is_skipped_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    messages, bad_records = deserialized(OnBadRecord.SKIP, b"1", b"two", b"3")
    assert [(each.offset, each.value) for each in messages] == [(0, 1), (2, 3)]
    assert messages.next_offsets == {HERE: 3}
    assert messages.to_arrow(deserialized=True).column("value").to_pylist() == [1, 3]
    assert bad_records.total == 2  # once for each of the two
    assert len(caplog.messages) == 1


def test_what_a_deserializer_refuses_can_stay_bytes_with_a_reason() -> None:
    messages, _ = deserialized(OnBadRecord.RAW, b"1", b"two", b"3")
    assert [each.value for each in messages] == [1, b"two", 3]
    assert "number" in dict(messages[1].headers)["penstock.error"].decode()  # type: ignore[union-attr]
    table = messages.to_arrow(deserialized=True)
    assert table.column("value").to_pylist() == [1, None, 3]
    assert [len(each) for each in table.column("headers").to_pylist()] == [0, 1, 0]


def test_raw_bytes_of_the_log_are_no_deserializers_business() -> None:
    bad_records = BadRecords(OnBadRecord.RAW)
    messages, _, _ = bad_records.decode(rocketmq(stored(0, b"1"), stored(1, b"2", 1), stored(2, b"3"))(0))
    made = with_deserializers(messages, Deserializers(None, number, bad_records.refused))
    assert [each.value for each in made] == [1, b"2", 3]
    assert made.to_arrow(deserialized=True).column("value").to_pylist() == [1, None, 3]
    assert bad_records.total == 1


def test_a_pickled_batch_still_knows_what_to_do() -> None:
    messages, _ = deserialized(OnBadRecord.SKIP, b"1", b"two", b"3")
    again = pickle.loads(pickle.dumps(messages))
    assert [each.value for each in again] == [1, 3]


# Lengths that cannot be believed.


@pytest.mark.parametrize("length", [5, -1, 2**31 - 1])
def test_a_batch_whose_length_lies_is_skipped_by_its_last_offset(length: int) -> None:
    lying = batch(2, 3)
    lying[8:12] = length.to_bytes(4, "big", signed=True)
    open_at = kafka(bytes(lying))
    bad_records = BadRecords(OnBadRecord.SKIP)
    messages, offset, _ = bad_records.decode(open_at(0))
    assert [each.offset for each in messages] == [0, 1]
    fetched = open_at(offset)
    messages, offset, _ = bad_records.decode_around(fetched, not_whole(fetched))
    assert (len(messages), offset) == (0, 5)
    assert [each.offset for each in bad_records.decode(open_at(5))[0]] == [5, 6]


def test_a_batch_of_which_nothing_can_be_believed_fails_in_words() -> None:
    lying = batch(2, 3)
    lying[8:12] = b"\0\0\0\5"
    lying[23:27] = b"\x7f\xff\xff\xff"
    fetched = kafka(bytes(lying))(2)
    with pytest.raises(CorruptBatch, match="Where the next record begins is unknown") as raised:
        BadRecords(OnBadRecord.SKIP).decode(fetched)
    assert raised.value.offset == 2


def test_a_message_whose_size_lies_ends_its_answer_only() -> None:
    lying = bytearray(stored(1, b"v1"))
    lying[0:4] = b"\x7f\xff\xff\xff"
    answer = rocketmq(stored(0, b"v0"), bytes(lying), stored(2, b"v2"))
    bad_records = BadRecords(OnBadRecord.SKIP)
    messages, offset, _ = bad_records.decode(answer(0))
    assert ([each.value for each in messages], offset, bad_records.total) == ([b"v0"], 3, 2)
