"""Records one by one, and by columns: the same messages, whatever is in them."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from penstock.model import Codec
from penstock.protocols.tubemq.server.log import message_of
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C
from penstock.protocols.tubemq.wire.protobuf import decode, encode
from penstock.protocols.tubemq.wire.record_columns import bulk_of
from penstock.records import encode_v2
from penstock.records.arrow import HEADERS_TYPE
from penstock.records.batch import stamp
from penstock.records.scalar_codec import Stored, encode_batch, stored_records

HEADERS = st.lists(
    st.tuples(st.sampled_from(["tubemq.filter", "a", "", "$x", "é"]), st.none() | st.binary(max_size=4)), max_size=3
)
TIMES = st.sampled_from([-1, 0, 1_795_168_800_000, 1_795_168_800_001])
RECORDS = st.lists(
    st.builds(
        lambda time, timed, key, value, headers: Stored(0, time, timed, key, value, tuple(headers)),
        TIMES,
        st.booleans(),
        st.none() | st.binary(max_size=5),
        st.none() | st.binary(max_size=40),
        HEADERS,
    ),
    min_size=1,
    max_size=12,
)


def written(records: list[Stored], first: int) -> bytes:
    """The records as batches, one for each run of the same kind of time, as the front writes them."""
    out, run = bytearray(), records[:1]
    for record in [*records[1:], None]:
        if record is None or record.timed != run[0].timed:
            batch = encode_batch(run)
            stamp(batch, first, 0)
            first += len(run)
            out += batch
            run = []
        if record is not None:
            run.append(record)
    return bytes(out)


@given(RECORDS, st.integers(0, 5), st.integers(0, 3), st.integers(1, 400), st.integers(1, 12))
def test_both_give_the_same(records: list[Stored], first: int, skipped: int, most: int, count: int) -> None:
    data = written(records, first)
    start = first + skipped
    bulk = bulk_of(data, start, most_bytes=most, most_records=count, record_bytes=52)
    single = [message_of(record) for record in stored_records(data, start)]
    if bulk is None:
        assert not single
        return
    wrapped = encode(GetMessageResponseB2C(success=True, err_code=200)) + bytes(bulk.encoded)
    assert list(decode(GetMessageResponseB2C, wrapped).messages) == single[: bulk.count]
    assert bulk.first == start
    assert bulk.count == min(count, len(single)) or bulk.size >= most


@given(RECORDS, st.sampled_from(list(Codec)))
def test_what_another_client_wrote_is_read_the_same(records: list[Stored], codec: Codec) -> None:
    rows = pa.RecordBatch.from_arrays(
        [
            pa.array([record.key for record in records], pa.binary()),
            pa.array([record.value for record in records], pa.binary()),
            pa.array([record.timestamp_ms for record in records], pa.int64()),
            pa.array(
                [[{"key": key, "value": value} for key, value in record.headers] for record in records], HEADERS_TYPE
            ),
        ],
        names=["key", "value", "timestamp", "headers"],
    )
    data = bytes(encode_v2(rows, codec=codec))
    bulk = bulk_of(data, 0, most_bytes=1 << 20, most_records=100, record_bytes=52)
    assert bulk is not None
    wrapped = encode(GetMessageResponseB2C(success=True, err_code=200)) + bytes(bulk.encoded)
    assert list(decode(GetMessageResponseB2C, wrapped).messages) == [
        message_of(record) for record in stored_records(data, 0)
    ]
