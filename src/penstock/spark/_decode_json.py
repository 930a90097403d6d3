"""Decodes JSON values into one typed Arrow column, and says what is wrong with invalid ones; vectorised.

Arrow's JSON reader does the work, on many values at once, one per line. It is not made for untrusted values: one bad
value fails the whole call, two objects on one line become two rows, and a bare ``null`` crashes it. So values are
checked first, column-wise: each begins with ``{`` and ends with ``}``, and no ``}`` in it is followed by anything that
could begin another value; values that fail the check are first read by Python's parser. Each line then gives exactly
one row, or an error. After an error, the values without the right shape (``_decode_shape``) are decoded one by one to
find the bad ones, and the others are read again. Schemas with types that Arrow's reader lacks (maps, binary) are
decoded value by value in ``_decode_rows``.

Types are exact: a number in quotes is not a number, 1.0 is not an int, a decimal may not have too many digits. Fields
that the schema does not name are ignored; missing fields are null, and so is a value that is null or ``null``.
Timestamps are ISO 8601; without a zone they are UTC. What must not live here: what is done about bad values
(``_bad_records``).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from penstock.spark._ddl import Array, Map, Scalar, Struct, Type, arrow_type
from penstock.spark._decode_rows import decode_row
from penstock.spark._decode_shape import shape

__all__ = ["JsonDecoder"]

Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_MOST_BYTES: Final = 64 * 1024 * 1024
_FEW: Final = 512
"""Values read at a time if something is still wrong after the sieve: enough to outweigh Arrow's fixed cost of half a
millisecond per call, and few enough that one bad value does not slow the whole batch."""

_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970: the first and last dates that Python has."""

_OPEN, _CLOSE, _NEWLINE = ord("{"), ord("}"), ord("\n")
_AFTER_CLOSE: Final = np.zeros(256, bool)
_AFTER_CLOSE[[ord(each) for each in ",]}\n"]] = True
_BLANK: Final = np.zeros(256, bool)
_BLANK[[ord(each) for each in " \t\r"]] = True
_IN_ROW: Final = re.compile(r" in row (\d+)$")
_CHANGED: Final = re.compile(r"Column\((.*)\) changed from (\w+) to (\w+)")


class JsonDecoder:
    """Decodes values into a struct column of one schema."""

    def __init__(self, schema: Struct) -> None:
        self._schema = schema
        self.type: pa.DataType = arrow_type(schema)
        self._one_by_one = _has(schema, lambda each: isinstance(each, Map) or each == Scalar("binary"))
        self._decimals = _has(schema, lambda each: isinstance(each, Scalar) and each.name == "decimal")
        self._shape = shape(schema)
        self._carrier: pa.DataType = arrow_type(_carried(schema))
        self._parse = pyarrow.json.ParseOptions(
            explicit_schema=pa.schema(list(self._carrier)), unexpected_field_behavior="ignore"
        )

    def decode(self, values: pa.Array) -> tuple[pa.StructArray, Mapping[int, str]]:
        """(a struct for each value, null where there is none; by row, why a value could not be decoded)."""
        present = np.flatnonzero(values.is_valid().to_numpy(zero_copy_only=False))
        errors: dict[int, str] = {}
        pieces: list[pa.StructArray] = []
        taken: list[Numbers] = []
        apart = self._apart(values, present)
        if len(apart):
            pieces.append(self._rows_one_by_one(values, apart, errors))
            taken.append(apart)
        for rows in _cut(values, np.setdiff1d(present, apart, assume_unique=True)):
            readable = self._readable(values, rows, errors)
            if len(readable):
                self._decode_some(values, readable, pieces, taken, errors)
        # Back from the order of decoding to that of the rows; rows that were not decoded are null.
        order = np.full(len(values), -1, np.int64)
        found = np.concatenate(taken) if taken else np.empty(0, np.int64)
        order[found] = np.arange(len(found))
        joined = pa.concat_arrays(pieces) if pieces else pa.nulls(0, self.type)
        return joined.take(pa.array(order, mask=order < 0)), errors

    def _decode_some(
        self,
        values: pa.Array,
        rows: Numbers,
        pieces: list[pa.StructArray],
        taken: list[Numbers],
        errors: dict[int, str],
    ) -> None:
        """Read all at once; if that fails, all but those of the doubtful values that are in fact wrong.

        If that fails too, a few hundred at a time; where that fails, again without the wrong ones. Wrong values are
        found one by one, by the row decoder, whose rules are the same. If it finds nothing wrong, what is left is
        halved, down to one value.
        """
        runs = [rows]
        sieve = self._shape != ""
        while runs:
            run = runs.pop()
            try:
                pieces.append(self._read(_lines(values, run), len(run)))
                taken.append(run)
            except (pa.ArrowInvalid, UnicodeDecodeError) as error:
                if sieve:
                    sieve = False
                    good = self._good(values, run, ~self._looks_good(values, run), errors)
                    runs += [good] if len(good) else []
                elif len(run) > _FEW:
                    runs += reversed(np.array_split(run, len(run) // _FEW + 1))
                elif len(good := self._good(values, run, np.ones(len(run), bool), errors)) < len(run):
                    runs += [good] if len(good) else []
                elif len(run) > 1:
                    runs += [run[len(run) // 2 :], run[: len(run) // 2]]
                else:
                    errors[int(run[0])] = _in_words(error)

    def _looks_good(self, values: pa.Array, rows: Numbers) -> Flags:
        found = pc.match_substring_regex(values.take(pa.array(rows)), self._shape)
        return np.asarray(found.to_numpy(zero_copy_only=False))

    def _good(self, values: pa.Array, rows: Numbers, doubtful: Flags, errors: dict[int, str]) -> Numbers:
        """``rows`` without those that are ``doubtful`` and in fact wrong, which go to ``errors``."""
        kept = np.ones(len(rows), bool)
        places = np.flatnonzero(doubtful)
        for place, value in zip(places.tolist(), values.take(pa.array(rows[places])).to_pylist(), strict=True):
            try:
                decode_row(value, self._schema)
            except ValueError as error:
                errors[int(rows[place])] = str(error)
                kept[place] = False
        return rows[kept]

    def _read(self, lines: pa.Buffer, rows: int) -> pa.StructArray:
        # Arrow's reader does not check for UTF-8; other text would reach the JVM.
        _check_utf8(lines)
        options = pyarrow.json.ReadOptions(use_threads=False, block_size=lines.size + 1)
        table = pyarrow.json.read_json(pa.BufferReader(lines), read_options=options, parse_options=self._parse)
        if table.num_rows != rows:
            raise pa.ArrowInvalid("more than one value")
        columns = [table.column(index).combine_chunks() for index in range(len(self._carrier))]
        columns = [each.chunk(0) if isinstance(each, pa.ChunkedArray) else each for each in columns]
        struct = pa.StructArray.from_arrays(columns, fields=list(self._carrier))
        return _refined(struct, self.type)

    def _readable(self, values: pa.Array, rows: Numbers, errors: dict[int, str]) -> Numbers:
        """The rows that can give one row, or an error; the others are null, or wrong and go to ``errors``."""
        if not len(rows):
            return rows
        odd = _odd(values, rows)
        kept = ~odd
        for place in np.flatnonzero(odd):
            row = int(rows[place])
            wrong = _why_odd(values[row].as_py())
            kept[place] = wrong == ""
            if wrong:
                errors[row] = wrong
        return rows[kept]

    def _apart(self, values: pa.Array, present: Numbers) -> Numbers:
        """Rows that Arrow's reader would not decode, or not exactly: it rounds decimals that have an exponent."""
        if self._one_by_one:
            return present
        if not self._decimals:
            return present[:0]
        found = pc.fill_null(pc.match_substring_regex(values, "[0-9.][eE]"), False)
        return np.flatnonzero(found.to_numpy(zero_copy_only=False))

    def _rows_one_by_one(self, values: pa.Array, rows: Numbers, errors: dict[int, str]) -> pa.StructArray:
        decoded: list[Any] = []
        for row in rows.tolist():
            try:
                decoded.append(decode_row(values[row].as_py(), self._schema))
            except ValueError as error:
                errors[row] = str(error)
                decoded.append(None)
        return pa.array(decoded, self.type)


def _why_odd(value: bytes) -> str | None:
    """What is wrong with a value that looks odd; "" if nothing is, None if it is ``null``."""
    try:
        tree = json.loads(value.decode())  # given bytes, it would guess the encoding
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return f"it is not JSON: {error}" if value.strip() else "it is empty"
    if tree is None:
        return None
    return "" if isinstance(tree, dict) else "it is not an object"


def _odd(values: pa.Array, rows: Numbers) -> npt.NDArray[np.bool_]:
    """Which of ``rows`` do not begin with ``{`` or end with ``}``, or may hold more than one value."""
    data = np.frombuffer(_lines(values, rows), np.uint8)
    lengths = pc.binary_length(values.take(pa.array(rows))).to_numpy(zero_copy_only=False).astype(np.int64)
    stops = np.cumsum(lengths + 1) - 1  # where each line's newline is
    starts = stops - lengths
    odd: npt.NDArray[np.bool_] = (lengths < 2) | (data[starts] != _OPEN) | (data[np.maximum(stops - 1, 0)] != _CLOSE)
    after = np.flatnonzero(data == _CLOSE) + 1
    while len(after):
        following = data[after]
        blank = _BLANK[following]
        wrong = after[~blank & ~_AFTER_CLOSE[following]]
        odd[np.searchsorted(stops, wrong)] = True
        after = after[blank] + 1
    return odd


def _lines(values: pa.Array, rows: Numbers) -> pa.Buffer:
    """The values, one per line; newlines in them, which are white space in JSON, become blanks."""
    some = values.take(pa.array(rows))
    joined = pc.binary_join(pa.ListArray.from_arrays(pa.array([0, len(some)], pa.int32()), some), b"\n")[0].as_buffer()
    lines = np.empty(joined.size + 1, np.uint8)
    lines[:-1] = np.frombuffer(joined, np.uint8)
    breaks = np.flatnonzero(lines[:-1] == _NEWLINE)
    if len(breaks) >= len(some):
        lines[breaks] = ord(" ")
        lengths = pc.binary_length(some).to_numpy(zero_copy_only=False).astype(np.int64)
        lines[(np.cumsum(lengths + 1) - 1)[:-1]] = _NEWLINE
    lines[-1] = _NEWLINE
    return pa.py_buffer(lines)


def _cut(values: pa.Array, rows: Numbers) -> list[Numbers]:
    """Rows in runs of about ``_MOST_BYTES``."""
    if not len(rows):
        return []
    sizes = np.cumsum(pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)[rows] + 1)
    bounds = np.searchsorted(sizes // _MOST_BYTES, np.arange(1, sizes[-1] // _MOST_BYTES + 1))
    return [each for each in np.split(rows, bounds) if len(each)]


def _check_utf8(lines: pa.Buffer) -> None:
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, lines.size], np.int32)), lines])
    text.validate(full=True)


def _carried(type_: Type) -> Type:
    """The type to ask Arrow's reader for: dates are read as text and converted afterwards."""
    match type_:
        case Scalar("date"):
            return Scalar("string")
        case Array(element):
            return Array(_carried(element))
        case Struct(fields):
            return Struct(tuple(type(field)(field.name, _carried(field.type)) for field in fields))
        case _:
            return type_


def _refined(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert what Arrow's reader read to the wanted type. Raises ArrowInvalid for what it should have refused.

    It accepts decimals with too many digits and the years 0 and 10000, the latter through a time zone.
    """
    if pa.types.is_struct(wanted):
        # The memory under a null may hold anything.
        valid = array.is_valid()
        parts = [array.field(index) for index in range(array.type.num_fields)]
        parts = [pc.if_else(valid, part, None) for part in parts] if array.null_count else parts
        fields = list(wanted)
        refined = [_refined(part, field.type) for part, field in zip(parts, fields, strict=True)]
        return pa.StructArray.from_arrays(refined, fields=fields, mask=pc.invert(valid) if array.null_count else None)
    if pa.types.is_list(wanted):
        items = _refined(array.flatten(), wanted.value_type)
        lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
        ends = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        mask = pc.invert(array.is_valid()) if array.null_count else None
        return pa.ListArray.from_arrays(ends, items, mask=mask).cast(wanted)
    if array.type != wanted:
        array = array.cast(wanted)
    if pa.types.is_decimal(wanted):
        array.validate(full=True)
    elif pa.types.is_temporal(wanted) and array.null_count < len(array):
        number, day = (pa.int32(), 1) if pa.types.is_date(wanted) else (pa.int64(), 86_400_000_000)
        if pc.min(array).cast(number).as_py() < _FIRST_DAY * day:
            raise pa.ArrowInvalid("a time before the year 1")
        if pc.max(array).cast(number).as_py() >= (_LAST_DAY + 1) * day:
            raise pa.ArrowInvalid("a time after the year 9999")
    return array


def _has(type_: Type, wanted: Any) -> bool:
    if wanted(type_):
        return True
    match type_:
        case Struct(fields):
            return any(_has(field.type, wanted) for field in fields)
        case Array(element):
            return _has(element, wanted)
        case _:
            return False


def _in_words(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return "it is not UTF-8"
    text = _IN_ROW.sub("", str(error).removeprefix("JSON parse error: "))
    changed = _CHANGED.fullmatch(text)
    if changed:
        path, wanted, found = changed.groups()
        return f"{path.strip('/').replace('/', '.') or 'it'} is {found}, expected {wanted}"
    return "it is not UTF-8" if "UTF8" in text or "UTF-8" in text else text.rstrip(".")
