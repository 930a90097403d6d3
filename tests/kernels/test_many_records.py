"""Batches of many records of mixed shapes, whole and spoilt at each byte: all ways of decoding say the same."""

from random import Random
from typing import Any

import pytest

from penstock.errors import PenstockError
from penstock.records import decode_v2
from tests.kernels.batches import Written, batch, varint
from tests.kernels.ways import same


def padded(value: int, size: int) -> bytes:
    """A varint of ``size`` bytes, if it does not need more: longer than it must be is allowed."""
    short = varint(value)
    if len(short) >= size:
        return short
    return short[:-1] + bytes([short[-1] | 128]) + b"\x80" * (size - len(short) - 1) + b"\0"


def part(content: bytes | None, size: int) -> bytes:
    return padded(-1, size) if content is None else padded(len(content), size) + content


def record(dice: Random, number: int, most: int) -> bytes:
    """A record whose varints have 1 to ``most`` bytes or what they need, with all that may be null or empty."""

    def size() -> int:
        return dice.randint(1, most)

    body = b"\0" + padded(dice.choice([0, -1, 70, -9_000, 2**40, -(2**63)]), size()) + padded(number, size())
    body += part(dice.choice([None, b"", b"key", b"k" * 70]), size())
    body += part(dice.choice([None, b"", b"value", b"v" * 70, b"w" * dice.choice([30, 8_200])]), size())
    headers = dice.choice([0, 0, 0, 1, 2, 3])
    body += padded(headers, size())
    for _ in range(headers):
        body += part(dice.choice([b"", b"n", b"name" * 20]), size()) + part(dice.choice([None, b"", b"h" * 66]), size())
    return padded(len(body), size()) + body


def run(dice: Random, counts: list[int], most: int) -> bytes:
    data, offset = b"", 0
    for count in counts:
        step = dice.choice([1, 1, 90])
        records = b"".join(record(dice, number * step, most) for number in range(count))
        last = max(count - 1, 0) * step
        data += batch(records, count, base_offset=offset, last=last, attributes=dice.choice([0, 0, 8]))
        offset += last + 1
    return data


def even(counts: list[int], *, value: bytes, headers: list[tuple[bytes, bytes | None]]) -> bytes:
    """What is common: keys and values of one length, the same headers in each record, or none."""
    data, offset = b"", 0
    for count in counts:
        records = [Written(b"k%04d" % number, value, number // 5, number, headers) for number in range(count)]
        data += batch(b"".join(each.encode() for each in records), count, base_offset=offset)
        offset += count
    return data


def decoded(data: bytes, **options: Any) -> Any:
    try:
        found = decode_v2(data, check_crcs=False, **options)
    except PenstockError as error:
        return type(error), str(error)
    columns = found.batch.set_column(3, "timestamp", found.batch.column(3).view("int64"))
    assert found.batch.schema.names[3] == "timestamp"
    columns.validate(full=True)
    return columns.to_pydict(), found.next_offset, found.consumed


@pytest.mark.parametrize("most", [1, 2, 3, 5, 10])
def test_varints_of_any_size_are_read_alike(most: int) -> None:
    dice = Random(most)
    for counts in ([70, 64, 66, 1, 0, 65], [300], [3] * 60, [9_000 // 30]):
        data = run(dice, counts, most)
        rows, next_offset, consumed = same(lambda data=data: decoded(data))
        assert (len(rows["value"]), consumed) == (sum(counts), len(data))
        same(lambda data=data, middle=next_offset // 2: decoded(data, start=middle))
        same(lambda data=data, middle=next_offset // 2: decoded(data, start=middle // 2, stop=middle))


@pytest.mark.parametrize("seed", range(3))
def test_a_wrong_byte_anywhere_is_answered_alike(seed: int) -> None:
    dice = Random(seed)
    data = [
        run(dice, [20, 3, 9, 12], 2),
        even([60] * 3, value=b"x" * 9, headers=[]),
        even([20] * 3, value=b"x" * 9, headers=[(b"n", b"one"), (b"m", None)]),
    ][seed]
    kinds = set()
    for at in range(61, len(data), len(data) // 400 or 1):
        spoilt = bytearray(data)
        spoilt[at] ^= dice.choice([0x80, 1, 2, 0xFF, dice.randrange(1, 256)])
        kinds.add(type(same(lambda spoilt=spoilt: decoded(bytes(spoilt)))[0]))
    assert kinds == {dict, type}


@pytest.mark.parametrize("cut", range(1, 12))
def test_data_that_ends_within_a_record_is_answered_alike(cut: int) -> None:
    for data in (even([200], value=b"x", headers=[(b"n", None)]), even([200], value=b"x", headers=[])):
        records = data[61:-cut]
        kind, words = same(lambda records=records: decoded(batch(records, 200)))
        assert issubclass(kind, PenstockError), words


def test_many_headers_and_the_same_ones_are_read_alike() -> None:
    headers: list[tuple[bytes, bytes | None]] = [(b"trace", b"0123456789abcdef"), (b"kind", b"order"), (b"empty", None)]
    rows, _, _ = same(lambda: decoded(even([100] * 4, value=b"x" * 50, headers=headers)))
    assert rows["headers"][399] == [{"key": name.decode(), "value": value} for name, value in headers]
    data = even([100, 3], value=b"x", headers=headers * 50) + even([100], value=b"x", headers=[])
    rows, _, _ = same(lambda: decoded(data[: len(data)]))
    assert [len(each) for each in rows["headers"]] == [150] * 103 + [0] * 100
