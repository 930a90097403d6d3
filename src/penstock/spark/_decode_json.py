"""Decodes JSON values into one typed Arrow column, vectorised, and gives an error for each invalid value.

Arrow's JSON reader does the work, on many values at once, one per line. It is not made for untrusted values: one bad
value fails the whole call, two objects on one line become two rows, and a bare ``null`` crashes it. So values are
checked first, column-wise: each begins with ``{`` and ends with ``}``, and no ``}`` in it is followed by anything that
could begin another value; values that fail this check are first read by Python's parser. Each line then gives exactly
one row, or an error. After an error, the values without the right shape (``shape``) are decoded one by one to find the
bad ones, and the others are read again. Schemas with types that Arrow's reader lacks (maps, binary) are decoded value
by value with ``decode_row``.

Types are exact: a number in quotes is not a number, 1.0 is not an int, a decimal may not have too many digits. Fields
that the schema does not name are ignored; missing fields are null, and so is a value that is null or ``null``.
Timestamps are ISO 8601; without a zone they are UTC.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from penstock.spark._ddl import Array, Field, Map, Scalar, Struct, Type, arrow_type

__all__ = ["JsonDecoder", "decode_row", "shape"]

# The shape of valid JSON values of a schema is one regular expression that Arrow matches on a whole column.
#
# For many values, Arrow's JSON reader only reports that one of them is wrong. The expression finds candidates: RE2,
# which Arrow uses, matches half a gigabyte per second and never backtracks, so it checks all values in less time than
# Python needs for a dozen. It is a filter, not a decision:
#
# - a value that does not match need not be wrong (an integer as large as its type allows, 29 February, an unknown field
#   nested deeper than ``_DEEPEST``): it has to be decoded;
# - a value that matches need not be valid (a repeated name, a comma before the end of an inner list).
#
# Each type is written once, so the expression is as long as the schema. That is why lists are written as "elements,
# each followed by a comma or the closing bracket". Values must end with ``}``, and any ``}`` must be followed by a
# comma or another end, which ``JsonDecoder`` ensures.
_DEEPEST: Final = 6
"""Nesting of values in fields that the schema does not name."""

_TOLD_APART: Final = 100
"""Bytes of a name that are compared: RE2 nests groups no deeper than a thousand."""

_LONGEST: Final = 60_000
"""Characters, for 100 to 300 fields. With more, RE2's state table overflows, and it is as slow as Python."""

_BLANK: Final = r"[ \t\r\n]*"
_COLON: Final = f"{_BLANK}:{_BLANK}"

_WIDER: Final = (  # UTF-8 of more than one byte: RFC 3629, section 4
    r"[\xc2-\xdf][\x80-\xbf]|\xe0[\xa0-\xbf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}|\xed[\x80-\x9f][\x80-\xbf]"
    r"|\xf0[\x90-\xbf][\x80-\xbf]{2}|[\xf1-\xf3][\x80-\xbf]{3}|\xf4[\x80-\x8f][\x80-\xbf]{2}"
)
_ESCAPED: Final = (
    r'\\(?:["\\/bfnrt]|u(?:[0-9abcefABCEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}'
    r"|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}))"
)
_STRING: Final = rf'"(?:[ !#-\[\]-\x7f]|{_WIDER}|{_ESCAPED})*"'
_NEVER: Final = r'"\\\x00-\x1f'
_LOOSE: Final = rf'[^"\[\]{{}}]|"(?:[^{_NEVER}]|\\.)*"'

_NUMBER: Final = r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]{1,2})?"
_DAY: Final = (
    r"[1-9][0-9]{3}-(?:(?:0[1-9]|1[0-2])-(?:0[1-9]|1[0-9]|2[0-8])|(?:0[13-9]|1[0-2])-(?:29|30)"
    r"|(?:0[13578]|1[02])-31)"
)
_TIME: Final = (
    rf"{_DAY}(?:[ T](?:[01][0-9]|2[0-3])(?::[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{{1,6}})?)?)?"
    r"(?:Z|[+-](?:0[0-9]|1[0-3])(?::?[0-5][0-9])?)?)?"
)
_SCALARS: Final = {
    "boolean": "true|false",
    "tinyint": "0|-?(?:[1-9][0-9]?|1[01][0-9])",
    "smallint": "0|-?(?:[1-9][0-9]{0,3}|[12][0-9]{4})",
    "int": "0|-?(?:[1-9][0-9]{0,8}|1[0-9]{9})",
    "bigint": "0|-?(?:[1-9][0-9]{0,17}|[1-8][0-9]{18})",
    "float": r"-?(?:0|[1-9][0-9]{0,19})(?:\.[0-9]+)?(?:[eE][+-]?[01]?[0-9])?",
    "double": _NUMBER,
    "string": _STRING,
    "binary": _STRING,
    "date": f'"{_DAY}"',
    "timestamp": f'"{_TIME}"',
    "timestamp_ntz": f'"{_TIME}"',
}


def shape(schema: Struct) -> str:
    """The expression, for a whole value in bytes; "" if it would be too long."""
    written = rf"\A{_BLANK}{_struct(schema.fields)}{_BLANK}\z"
    return written if len(written) <= _LONGEST else ""


def _written(type_: Type) -> str:
    match type_:
        case Struct(fields):
            written = _struct(fields)
        case Array(element):
            written = _list(r"\[", _written(element), r"\]")
        case Map():  # such values are decoded one by one
            written = _anything()
        case Scalar("decimal", precision, scale):
            whole = rf"[1-9][0-9]{{0,{precision - scale - 1}}}" if precision > scale else "0"
            number = rf"-?(?:0|{whole})" + (rf"(?:\.[0-9]{{1,{scale}}})?" if scale else "")
            written = f'{number}|"{number}"'
        case Scalar(name):
            written = _SCALARS[name]
    return f"(?:null|{written})"


def _struct(fields: tuple[Field, ...]) -> str:
    names = [field.name.encode() for field in fields]
    members = [f'"{_escaped(name)}"{_COLON}{_written(field.type)}' for name, field in zip(names, fields, strict=True)]
    return _list(r"\{", "|".join([*members, f'"{_other_names(names)}"{_COLON}{_anything()}']), r"\}")


def _list(opening: str, element: str, closing: str) -> str:
    return rf"{opening}{_BLANK}(?:{closing}|(?:(?:{element}){_BLANK}(?:,{_BLANK}|{closing}))+)"


def _anything() -> str:
    """A value of a field that the schema does not name; the content of its lists and objects is matched loosely."""
    inner = ""
    for _ in range(_DEEPEST):
        inner = rf"|[\[{{](?:{_LOOSE}{inner})*[\]}}]"
    return f"(?:null|true|false|{_NUMBER}|{_STRING}{inner})"


def _other_names(names: Sequence[bytes], depth: int = 0) -> str:
    """Any name without escapes that is not in ``names``: it differs in some byte, or is shorter or longer."""
    if depth == _TOLD_APART:
        return f"[^{_NEVER}]*"
    following: dict[bytes, list[bytes]] = {}
    for name in names:
        if name:
            following.setdefault(name[:1], []).append(name[1:])
    branches = [_escaped(byte) + _other_names(rest, depth + 1) for byte, rest in following.items()]
    branches.append(f"[^{_NEVER}{_escaped(b''.join(following))}][^{_NEVER}]*")
    return f"(?:{'|'.join(branches)}){'?' if b'' not in names else ''}"


def _escaped(text: bytes) -> str:
    return "".join(rf"\x{byte:02x}" for byte in text)


# Decodes one JSON value into Python objects of a schema's types, for the types that Arrow's reader lacks.
#
# The same rules as ``JsonDecoder``'s.
# As Arrow accepts them; Python accepts more.
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_TIME_TEXT = re.compile(r"\d{4}-\d\d-\d\d([ T]\d\d(:\d\d(:\d\d(\.\d{1,6})?)?)?(Z|[+-]\d\d(:?\d\d)?)?)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_WHOLE = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}


def decode_row(value: bytes, schema: Struct) -> dict[str, Any] | None:
    """The value's object, None for ``null``. Raises ValueError, which names the wrong field."""
    if not value.strip():
        raise ValueError("it is empty")
    try:
        text = value.decode()
        # Only loads() reports a byte order mark.
        tree = json.loads(text) if text.startswith("\ufeff") else _TREES.decode(text)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    if tree is None:
        return None
    if not isinstance(tree, _Pairs):
        raise ValueError("it is not an object")
    decoded: dict[str, Any] = _struct_value(tree, schema, "")
    return decoded


class _Pairs(list[tuple[str, Any]]):
    """An object as pairs in the order of its text, with repeated names."""

    __slots__ = ()


class _Number(str):
    """A number as it was written."""

    __slots__ = ()


_TREES = json.JSONDecoder(parse_float=_Number, parse_int=_Number, object_pairs_hook=_Pairs)
"""Created once, because ``json.loads`` with these arguments creates a decoder for each value."""


def _decode(tree: Any, type_: Type, path: str) -> Any:
    if tree is None:
        return None
    match type_:
        case Struct():
            return _struct_value(tree, type_, path)
        case Array(element):
            if isinstance(tree, _Pairs) or not isinstance(tree, list):
                raise _wrong(path, tree, "array")
            return [_decode(each, element, f"{path}.[]") for each in tree]
        case Map(value):
            if not isinstance(tree, _Pairs):
                raise _wrong(path, tree, "object")
            pairs = [(_string(key, path), _decode(each, value, f"{path}.{key}")) for key, each in tree]
            if len({key for key, _ in pairs}) < len(pairs):
                raise ValueError(f"a key of {path} appears twice")
            return pairs
        case Scalar(name):
            if name in _WHOLE:
                return _whole(tree, _WHOLE[name], path)
            if name == "decimal":
                return _decimal(tree, type_, path)
            return _SCALAR_READERS[name](tree, path)


def _struct_value(tree: Any, type_: Struct, path: str) -> dict[str, Any]:
    if not isinstance(tree, _Pairs):
        raise _wrong(path, tree, "object")
    given = dict(tree)
    prefix = f"{path}." if path else ""
    if len(given) < len(tree):
        names = [name for name, _ in tree]
        for field in type_.fields:
            if names.count(field.name) > 1:
                raise ValueError(f"{prefix}{field.name} appears twice")
    return {field.name: _decode(given.get(field.name), field.type, f"{prefix}{field.name}") for field in type_.fields}


def _whole(tree: Any, bits: int, path: str) -> int:
    if not isinstance(tree, _Number):
        raise _wrong(path, tree, "number")
    try:
        number = int(str(tree))
    except ValueError:
        raise ValueError(f"{path} is {tree}, expected a whole number") from None
    if not -(2**bits) <= number < 2**bits:
        raise ValueError(f"{path} is {tree}, too large for {bits + 1} bits")
    return number


def _decimal(tree: Any, type_: Scalar, path: str) -> Decimal:
    if not isinstance(tree, str):
        raise _wrong(path, tree, "number")
    try:
        if not _DECIMAL.fullmatch(tree):
            raise InvalidOperation
        number = Decimal(str(tree))
        exact = number.quantize(Decimal(1).scaleb(-type_.scale))
    except InvalidOperation:
        raise ValueError(f"{path} is {tree}, not a decimal({type_.precision},{type_.scale})") from None
    if exact != number or len(exact.as_tuple().digits) > type_.precision:
        raise ValueError(f"{path} is {tree}, which does not fit decimal({type_.precision},{type_.scale})")
    return exact


def _float(tree: Any, path: str) -> float:
    if isinstance(tree, float):  # NaN and the infinities: not JSON, but written by many programs
        return tree
    if not isinstance(tree, _Number):
        raise _wrong(path, tree, "number")
    number = float(str(tree))
    if math.isinf(number):
        raise ValueError(f"{path} is {tree}, too large for a double")
    return number


def _boolean(tree: Any, path: str) -> bool:
    if not isinstance(tree, bool):
        raise _wrong(path, tree, "boolean")
    return tree


def _string(tree: Any, path: str) -> str:
    if not isinstance(tree, str) or isinstance(tree, _Number):
        raise _wrong(path, tree, "string")
    try:
        tree.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{path} has half a surrogate pair") from None
    return tree


def _binary(tree: Any, path: str) -> bytes:
    try:
        return base64.b64decode(_string(tree, path), validate=True)
    except binascii.Error as error:
        raise ValueError(f"{path} is not base64: {error}") from None


def _date(tree: Any, path: str) -> date:
    text = _string(tree, path)
    try:
        if not _DATE.fullmatch(text):
            raise ValueError
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{path} is '{text[:40]}', expected a date like 2026-01-31") from None


def _timestamp(tree: Any, path: str) -> datetime:
    text = _string(tree, path)
    try:
        if not _TIME_TEXT.fullmatch(text):
            raise ValueError
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError(f"{path} is '{text[:40]}', expected a time like 2026-01-31T12:00:00Z") from None
    try:
        return moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{path} is '{text[:40]}', in UTC outside the years 1 to 9999") from None


def _local(tree: Any, path: str) -> datetime:
    return _timestamp(tree, path).replace(tzinfo=None)


_SCALAR_READERS: dict[str, Callable[[Any, str], Any]] = {
    "boolean": _boolean,
    "float": _float,
    "double": _float,
    "string": _string,
    "binary": _binary,
    "date": _date,
    "timestamp": _timestamp,
    "timestamp_ntz": _local,
}


def _wrong(path: str, tree: Any, wanted: str) -> ValueError:
    kinds = {_Number: "number", bool: "boolean", str: "string", list: "array", _Pairs: "object", float: "number"}
    return ValueError(f"{path or 'it'} is {kinds.get(type(tree), type(tree).__name__)}, expected {wanted}")


Numbers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]
_MOST_BYTES: Final = 64 * 1024 * 1024
_FEW: Final = 512
"""Values read at a time if the filter has missed a wrong value: enough to outweigh Arrow's fixed cost of half a
millisecond per call, and few enough that one bad value does not slow the whole batch."""

_FIRST_DAY: Final = -719_162
_LAST_DAY: Final = 2_932_896
"""0001-01-01 and 9999-12-31, in days since 1970: the first and last dates that Python has."""

_OPEN, _CLOSE, _NEWLINE = ord("{"), ord("}"), ord("\n")
_AFTER_CLOSE: Final = np.zeros(256, bool)
_AFTER_CLOSE[[ord(each) for each in ",]}\n"]] = True
_BLANK_BYTES: Final = np.zeros(256, bool)
_BLANK_BYTES[[ord(each) for each in " \t\r"]] = True
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
        """(a struct for each value, null if there is none; by row, the error of a value that could not be decoded)."""
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
        """Read all values at once. If that fails, check the doubtful values, and read all but the wrong ones.

        If that fails too, read a few hundred at a time; a part that fails is read again without its wrong values. The
        row decoder, which has the same rules, checks values one by one. If it finds nothing wrong, the part is halved,
        down to one value.
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
        """The rows that Arrow's reader can take. The others are null, or wrong: those go to ``errors``."""
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
    """The error in a value that looks odd; "" if it is correct, None if it is ``null``."""
    try:
        tree = json.loads(value.decode())  # not bytes, whose encoding it would guess
    except RecursionError:
        return "it is nested too deeply"
    except ValueError as error:
        return f"it is not JSON: {error}" if value.strip() else "it is empty"
    if tree is None:
        return None
    return "" if isinstance(tree, dict) else "it is not an object"


def _odd(values: pa.Array, rows: Numbers) -> npt.NDArray[np.bool_]:
    """True for those of ``rows`` that do not begin with ``{`` or end with ``}``, or may have more than one value."""
    data = np.frombuffer(_lines(values, rows), np.uint8)
    lengths = pc.binary_length(values.take(pa.array(rows))).to_numpy(zero_copy_only=False).astype(np.int64)
    stops = np.cumsum(lengths + 1) - 1  # where each line's newline is
    starts = stops - lengths
    odd: npt.NDArray[np.bool_] = (lengths < 2) | (data[starts] != _OPEN) | (data[np.maximum(stops - 1, 0)] != _CLOSE)
    after = np.flatnonzero(data == _CLOSE) + 1
    while len(after):
        following = data[after]
        blank = _BLANK_BYTES[following]
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
    """``rows`` in parts of about ``_MOST_BYTES`` bytes."""
    if not len(rows):
        return []
    sizes = np.cumsum(pc.binary_length(values).fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)[rows] + 1)
    bounds = np.searchsorted(sizes // _MOST_BYTES, np.arange(1, sizes[-1] // _MOST_BYTES + 1))
    return [each for each in np.split(rows, bounds) if len(each)]


def _check_utf8(lines: pa.Buffer) -> None:
    text = pa.Array.from_buffers(pa.string(), 1, [None, pa.py_buffer(np.array([0, lines.size], np.int32)), lines])
    text.validate(full=True)


def _carried(type_: Type) -> Type:
    """The type that Arrow's reader decodes; dates are read as text and converted afterwards."""
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
    """Convert the reader's result to the wanted type. Raises ArrowInvalid for values that it should have refused.

    It accepts decimals with too many digits, and the years 0 and 10000 (10000 through a time zone).
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
