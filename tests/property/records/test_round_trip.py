"""What is encoded decodes to what it was, for every codec, from records and from columns, whole and in slices."""

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import Codec, Partition, TimestampType
from penstock.records import Messages, Producing, decode_v2, encode_v2
from penstock.records.batch import parse_header, stamp, stamp_append_time, verify_crc
from penstock.records.compression import compress, inflate
from penstock.records.scalar_writer import FewRows, encode_few, join
from tests.property.records.strategies import Sent, batches, builder_of

PLACE = Partition("t", 0)


def read(data: memoryview) -> list[Sent]:
    found = decode_v2(data)
    assert found.consumed == len(data)
    messages = Messages.of(PLACE, found.batch, found.next_offset)
    assert [message.offset for message in messages] == list(range(len(messages)))
    return [Sent(found.key, found.value, found.timestamp_ms, list(found.headers)) for found in messages]


@given(batches, st.sampled_from(Codec))
def test_records_come_back_as_they_were_sent(rows: list[Sent], codec: Codec) -> None:
    assert read(builder_of(rows).build(codec)) == rows


@given(batches, st.sampled_from(Codec))
def test_decoded_columns_encode_to_a_batch_with_the_same_records(rows: list[Sent], codec: Codec) -> None:
    columns = decode_v2(builder_of(rows).build()).batch
    assert read(encode_v2(columns, codec=codec)) == rows


@given(batches, st.data())
def test_a_slice_encodes_as_its_own_rows_do(rows: list[Sent], data: st.DataObject) -> None:
    first = data.draw(st.integers(0, len(rows) - 1))
    last = data.draw(st.integers(first + 1, len(rows)))
    whole = builder_of(rows).rows()
    part = builder_of(rows[first:last]).rows()
    assert encode_v2(whole.slice(first, last - first)) == encode_v2(part)


@given(batches, st.sampled_from(Codec), st.integers(0, 2**62), st.integers(0, 2**31 - 1))
def test_stamping_leaves_the_checksum_right(rows: list[Sent], codec: Codec, offset: int, epoch: int) -> None:
    data = builder_of(rows).build(codec, Producing(7, 3, 11, transactional=True))
    stamp(data, offset, epoch)
    header = parse_header(data)
    verify_crc(data, header)
    assert (header.base_offset, header.leader_epoch, header.next_offset) == (offset, epoch, offset + len(rows))
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 11)
    assert header.transactional
    assert not header.control
    assert (header.base_timestamp, header.max_timestamp) == (
        rows[0].timestamp_ms,
        max(row.timestamp_ms for row in rows),
    )


@given(batches, st.sampled_from(Codec), st.integers(0, 2**50))
def test_log_append_time_is_the_time_of_every_record(rows: list[Sent], codec: Codec, now_ms: int) -> None:
    data = builder_of(rows).build(codec)
    stamp_append_time(data, now_ms)
    verify_crc(data, parse_header(data))
    found = decode_v2(data)
    for message in Messages.of(PLACE, found.batch, found.next_offset):
        assert (message.timestamp_ms, message.timestamp_type) == (now_ms, TimestampType.LOG_APPEND)


@given(st.binary(max_size=2000), st.integers(0, 80), st.sampled_from(Codec))
def test_payloads_of_any_size_come_back(data: bytes, times: int, codec: Codec) -> None:
    payload = data * times
    if codec is Codec.LZ4 or payload:
        assert inflate(codec, compress(codec, payload), len(payload)) == payload


@given(batches)
def test_asking_for_some_columns_gives_just_these(rows: list[Sent]) -> None:
    data = builder_of(rows).build()
    everything = decode_v2(data).batch
    for name in everything.schema.names:
        assert decode_v2(data, columns=[name]).batch.equals(everything.select([name]))
    assert decode_v2(data, columns=["topic"]).batch.num_rows == len(rows)


@given(batches, st.sampled_from(["us", "ns", "ms", "s"]))
def test_timestamps_of_any_unit_are_floored_to_milliseconds(rows: list[Sent], unit: str) -> None:
    plain = builder_of([row._replace(timestamp_ms=row.timestamp_ms % 2**40 - 2**39) for row in rows]).rows()
    stamps = plain.column("timestamp").cast(pa.timestamp("s"), safe=False).cast(pa.timestamp(unit))
    given_rows = plain.set_column(2, "timestamp", stamps)
    expected = [stamp.value for stamp in stamps.cast(pa.timestamp("s"))]
    assert [row.timestamp_ms // 1000 for row in read(encode_v2(given_rows))] == expected


@given(batches, st.sampled_from(Codec), st.booleans())
def test_a_handful_is_written_as_columns_are(rows: list[Sent], codec: Codec, transactional: bool) -> None:
    few = builder_of(rows).few()
    assert isinstance(few, FewRows)
    producing = Producing(7, 3, 11, transactional=transactional)
    assert encode_few(few, codec=codec, producing=producing) == encode_v2(
        few.columns(), codec=codec, producing=producing
    )


@given(batches, st.data())
def test_a_handful_is_cut_and_joined_as_columns_are(rows: list[Sent], data: st.DataObject) -> None:
    few = builder_of(rows).few()
    assert isinstance(few, FewRows)
    middle = data.draw(st.integers(0, len(rows)))
    front, back = few.slice(0, middle), few.slice(middle)
    assert (front.num_rows, back.num_rows) == (middle, len(rows) - middle)
    assert encode_few(join([front, back])) == encode_few(few)
    places = data.draw(st.lists(st.sampled_from(range(len(rows))), min_size=1, max_size=10))
    assert read(encode_few(few.picked(places))) == [rows[place] for place in places]
