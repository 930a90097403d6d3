"""A handful of messages is written one by one, many by a kernel and by columns: every byte is the same."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.model import Partition
from penstock.protocols.tubemq.client.sender import SendRequests
from penstock.protocols.tubemq.wire.messages import AuthorizedInfo
from penstock.protocols.tubemq.wire.record_columns import encode
from penstock.protocols.tubemq.wire.records import encode_few
from penstock.records.scalar_writer import FewRows

BYTES = st.one_of(st.none(), st.sampled_from([b"", b"blue", b" x", b"a=b", b"x" * 9_000]), st.binary(max_size=300))
TEXTS = st.one_of(st.sampled_from(["tubemq.filter", "a", "", "a,b", "\xe9"]), st.text(max_size=4))
# As far as Arrow's microseconds reach, which is where a client cuts times off.
TIMES = st.one_of(
    st.sampled_from([-1, 0, 951_782_400_000, -62_135_596_800_000]), st.integers(-(2**63) // 1_000, (2**63 - 1) // 1_000)
)
ROW = st.tuples(BYTES, BYTES, TIMES, st.lists(st.tuples(TEXTS, BYTES), max_size=3))
ROWS = st.lists(ROW, min_size=1, max_size=6)


def few(rows: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]]) -> FewRows:
    keys, values, times, headers = zip(*rows, strict=True)
    return FewRows(keys, values, times, {place: pairs for place, pairs in enumerate(headers) if pairs})


@given(ROWS, st.integers(1, 2**31 - 1))
def test_payloads_and_requests_are_the_same_bytes(
    rows: list[tuple[bytes | None, bytes | None, int, list[tuple[str, bytes | None]]]], serial: int
) -> None:
    some = few(rows)
    one_by_one, by_columns = encode_few(some), encode(some.columns())
    count = len(rows)
    assert one_by_one.data == [bytes(by_columns.payload(row)) for row in range(count)]
    assert one_by_one.flags == by_columns.flags.tolist()
    assert one_by_one.checksums == by_columns.checksums.tolist()
    assert [one_by_one.msg_type(row) for row in range(count)] == [by_columns.msg_type(row) for row in range(count)]
    assert [one_by_one.msg_time(row) for row in range(count)] == [by_columns.msg_time(row) for row in range(count)]
    assert (one_by_one.size, one_by_one.sizes()) == (by_columns.size, by_columns.sizes())
    serials = [serial, *range(1, count)]
    requests = SendRequests(Partition("demo", 3, "1"), "client", 7, AuthorizedInfo(visit_authorized_token=9), 10_000)
    written = [
        b"".join(
            b"".join(each(one)) for each, one in zip(requests.requests(payloads, range(count)), serials, strict=True)
        )
        for payloads in (one_by_one, by_columns)
    ]
    written += [b"".join(requests.together(payloads, range(count))(serials)) for payloads in (one_by_one, by_columns)]
    assert len(set(written)) == 1
