"""JSON as RocketMQ's servers accept it: a superset of JSON's syntax, and conversions of values to a field's type.

Java's servers parse with fastjson, and clients in other languages write what it accepts: numbers in quotes (Go), the
number of an enumeration's value (C++), keys without quotes or that are objects (Java: ``{0:"a"}``, ``{{"id":0}:5}``).
The rules here are those of a 5.4 broker; tests/rocketmq_json.py lists them, and an interop test checks them there.
Standard JSON is parsed by `json` in one go; only values of another type than their field's are converted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from penstock.errors import ProtocolViolation

__all__ = ["MAX_JSON_BYTES", "flag", "name", "number", "parse", "parse_body", "text"]

MAX_JSON_BYTES: Final = 4 << 20
"""Python objects take about twenty times the bytes of the shortest JSON."""

_DEEPEST: Final = 100
_TOKEN: Final = re.compile(
    r"""(?:\s++|//[^\n]*+|/\*.*?\*/)*+("(?:[^"\\]++|\\.)*+"|'(?:[^'\\]++|\\.)*+'|[][{},:]|[^][{},:"'/\s]++)""",
    re.DOTALL,
)
_ODD_IN_STRING: Final = re.compile(r"""\\x([0-9a-fA-F]{2})|\\(.)|(")""", re.DOTALL)
_ODD_NUMBER: Final = re.compile(r"([+-]?)0*(\d*)(?:\.(\d*))?([eE][+-]?\d+)?[BSLFD]?", re.ASCII)
_KEY: Final = re.compile(r"-?\d+", re.ASCII)
_WHOLE: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_FRACTION: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,9})?", re.ASCII)
_NOTHING: Final = frozenset({"", "null"})
_TRUE: Final = frozenset({"true", "1", "y"})
_FALSE: Final = frozenset({"false", "0", "n"})


class Fraction(str):
    """A number with a fraction or an exponent, in its original text, since a field may want it as text."""

    __slots__ = ()


def _no_number(word: str) -> Any:
    raise ValueError(f"{word} is no number")


_READ: Final = json.JSONDecoder(parse_float=Fraction, parse_constant=_no_number, strict=False).decode
"""For text: `json.loads` takes twice as long, because it detects the encoding of bytes. Here it is always UTF-8."""


def parse(said: str, *, most_odd: int = MAX_JSON_BYTES) -> Any:
    """Parse JSON; every key is a text. Raises ProtocolViolation.

    ``most_odd``: the limit of characters if it is not standard JSON, which takes a microsecond for two of them.
    """
    try:
        return _READ(said)
    except (ValueError, RecursionError) as error:
        if len(said) > most_odd:
            raise ProtocolViolation(f"{len(said)} letters are no JSON: {str(error)[:200]}") from error
    try:
        return _READ(" ".join(_standard(said)))
    except (ValueError, RecursionError) as error:
        raise ProtocolViolation(f"{len(said)} letters are no JSON: {str(error)[:200]}") from error


def parse_body(data: bytes | bytearray | memoryview, *, max_bytes: int = MAX_JSON_BYTES) -> Any:
    """Parse a body as `parse` does. Raises ProtocolViolation."""
    if len(data) > max_bytes:
        raise ProtocolViolation(f"a body of {len(data)} bytes of JSON; {max_bytes} are allowed")
    try:
        said = bytes(data).decode()
    except UnicodeDecodeError as error:
        raise ProtocolViolation(f"a body of {len(data)} bytes is not UTF-8") from error
    return parse(said)


# Values. Each function returns None for an empty value, and raises ProtocolViolation for one that does not convert.


def number(value: Any, bits: int, where: str) -> int | None:
    """The whole number of a value. A fraction is cut off; if such a number, or one with an exponent, does not fit
    ``bits``, it becomes the nearest that does. Other numbers may have any size.
    """
    if isinstance(value, int):  # true is 1
        return int(value)
    if isinstance(value, str):
        if value in _NOTHING:
            return None
        if _WHOLE.fullmatch(value):
            return int(value)
        if _FRACTION.fullmatch(value):
            most = 1 << bits - 1
            return int(min(max(float(value), -most), most - 1))
    elif value is None:
        return None
    raise ProtocolViolation(f"{where} is {_shown(value)}, which is no number")


def flag(value: Any, where: str) -> bool | None:
    """The truth value of a value; of numbers only 1 is true."""
    if isinstance(value, bool):
        return value
    if isinstance(value, Fraction):
        return False
    if isinstance(value, int):
        return value == 1
    if isinstance(value, str):
        word = value.lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        if value in _NOTHING:
            return None
    elif value is None:
        return None
    raise ProtocolViolation(f"{where} is {_shown(value)}, which is neither true nor false")


def text(value: Any) -> str | None:
    """The text of a value: a number in its original text, an object or a list as JSON."""
    if isinstance(value, Fraction):
        return _plain(value)
    if isinstance(value, str):
        return value
    return None if value is None else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _plain(fraction: Fraction) -> str:
    """Without an exponent, where Java writes none."""
    if "e" not in fraction and "E" not in fraction:
        return str(fraction)
    from decimal import Decimal, InvalidOperation  # not at the top: hardly any client writes an exponent

    try:
        return str(Decimal(fraction))
    except InvalidOperation:
        return str(fraction)


def name(value: Any, names: Sequence[str], where: str) -> str | None:
    """The name of an enumeration's value, by name in any case or by position. None if there is none."""
    if isinstance(value, str) and not isinstance(value, Fraction) and not _WHOLE.fullmatch(value):
        upper = value.upper()
        return upper if upper in names else None
    place = None if isinstance(value, bool) else number(value, 32, where)
    if place is None and value is None:
        return None
    if place is None or not 0 <= place < len(names):
        raise ProtocolViolation(f"{where} is {_shown(value)}; there are {', '.join(names)}")
    return names[place]


def _shown(value: Any) -> str:
    return repr(value)[:40]


# Syntax.


def _standard(said: str) -> Iterator[str]:
    """Yield the text as standard JSON, piece by piece. Raises ProtocolViolation."""
    # The state of each open object or list, a letter for what may come next. In an object: "{" its first name, ","
    # another name, ":" a colon, "v" a value. In a list: "[".
    within: list[str] = []
    at, end, comma = 0, len(said.rstrip()), False
    while at < end:
        token, after = _token(said, at)
        state = within[-1] if within else ""
        if state in {"{", ","} and token != "}":
            if token == "," and state == ",":
                at = after
                continue
            key, after = _name(said, token, at, after)
            yield f",{key}" if state == "," else key
            within[-1] = ":"
        elif state == ":":
            if token != ":":
                raise ProtocolViolation(f"a name without a value: {token[:40]!r} follows it")
            yield token
            within[-1] = "v"
        elif state == "[" and token == "," and not comma:
            comma = True  # a trailing comma is allowed
        else:
            if comma and token != "]":
                yield ","
            comma = False
            yield from _value(token, within)
        at = after


def _value(token: str, within: list[str]) -> Iterator[str]:
    """Yield a token that begins, ends or is a value."""
    if token in {"{", "["}:
        if len(within) == _DEEPEST:
            raise ProtocolViolation(f"JSON is deeper than {_DEEPEST} objects and lists")
        within.append(token)
        yield token
        return
    if token in {"}", "]"}:
        if not within or (token == "]") != (within.pop() == "["):
            raise ProtocolViolation(f"{token!r} ends what has not begun")
        yield token
    else:
        yield _scalar(token)
    if within and within[-1] == "v":
        within[-1] = ","


def _name(said: str, token: str, at: int, after: int) -> tuple[str, int]:
    """An object's key in quotes, and its end; a key that is an object becomes its original text."""
    if token == "{":
        after = _object_end(said, after)
        return json.dumps(said[at:after].strip(), ensure_ascii=False), after
    if token[0] in "\"'":
        return _string(token), after
    if _KEY.fullmatch(token):
        return f'"{token}"', after
    raise ProtocolViolation(f"{token[:40]!r} where a name in quotes belongs")


def _object_end(said: str, at: int) -> int:
    """The end of the object whose opening brace is just before ``at``."""
    depth = 1
    while depth:
        token, at = _token(said, at)
        depth += (token in {"{", "["}) - (token in {"}", "]"})
    return at


def _token(said: str, at: int) -> tuple[str, int]:
    found = _TOKEN.match(said, at)
    if found is None:
        raise ProtocolViolation(f"{len(said)} letters of JSON break off after {at}")
    return found[1], found.end()


def _scalar(token: str) -> str:
    if token[0] in "\"'":
        return _string(token)
    found = _ODD_NUMBER.fullmatch(token)
    if found is None or not (found[2] or found[3] or "0" in token):
        return token
    sign, whole, fraction, exponent = found.groups()
    rest = f".{fraction}" if fraction else ""
    return f"{'-' if sign == '-' else ''}{whole or '0'}{rest}{exponent or ''}"


def _string(token: str) -> str:
    return f'"{_ODD_IN_STRING.sub(_escaped, token[1:-1])}"'


def _escaped(found: re.Match[str]) -> str:
    if found[1]:
        return f"\\u00{found[1]}"
    if found[3]:
        return '\\"'
    return "'" if found[2] == "'" else found[0]
