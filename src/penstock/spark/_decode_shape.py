r"""The shape of valid JSON values of a schema, as one regular expression that Arrow matches on a whole column.

Given many values, Arrow's JSON reader only says that one of them is wrong. This finds the suspects: RE2, which Arrow
uses, matches half a gigabyte per second and never backtracks, so it checks all values in less time than Python needs
for a dozen. The expression is a sieve, not a judge:

- a value that it does not match need not be wrong (an integer as large as its type allows, 29 February, an unknown
  field nested deeper than ``_DEEPEST``): it has to be decoded;
- a value that it matches need not be valid (a repeated name, a comma before the end of an inner list).

Each type is written once, so the expression is as long as the schema. That is why lists are written as "elements, each
followed by a comma or the closing bracket". Values must end with ``}``, and any ``}`` must be followed by a comma or
another end, which ``_decode_json`` ensures. What must not live here: whether a value is valid.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock.spark._ddl import Array, Field, Map, Scalar, Struct, Type

__all__ = ["shape"]

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
    """Any name without escapes that is none of ``names``: they branch off somewhere, or end too early or too late."""
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
