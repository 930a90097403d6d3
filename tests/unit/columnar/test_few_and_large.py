"""A handful of records is the same bytes whatever it weighs: small ones are summed before they are put together."""

from __future__ import annotations

import pytest

from penstock.records import encode_v2
from penstock.records.batch import Producing, parse_header, verify_crc
from penstock.records.scalar_writer import FewRows, encode_few


@pytest.mark.parametrize("size", [0, 1, 63, 64, 8_191, 8_192, 100_000, *range(4_070, 4_110)])
def test_a_record_of_any_size_is_written_as_columns_are(size: int) -> None:
    rows = FewRows([None], [b"x" * size], [1_700_000_000_000])
    producing = Producing(7, 3, 11)
    written = encode_few(rows, producing=producing)
    assert written == encode_v2(rows.columns(), producing=producing)
    assert not written.readonly
    verify_crc(written, parse_header(written))


def test_the_log_s_times_are_marked_in_small_ones_too() -> None:
    for size in (10, 10_000):
        written = encode_few(FewRows([b"k"], [b"x" * size], [5]), append_time=True)
        verify_crc(written, parse_header(written))
        assert parse_header(written).attributes == 8
