"""Filters of subscriptions: by tags, or by an SQL92 expression over a message's properties.

`wanted_by` is the entry. `matcher` compiles an SQL92 expression; `equal`, `ordered` and `compare` are its comparisons.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import lru_cache
from math import isnan
from typing import Final, NamedTuple, TypeAlias

from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.records.scalar_codec import Stored

__all__ = ["Illegal", "Value", "Wanted", "compare", "equal", "matcher", "ordered", "wanted_by"]

# SQL92 comparisons. A message's values are always text, so text is converted to the other side's type. If it cannot be,
# or if two texts that are not numbers are to be ordered, the message does not match, whatever the rest of the
# expression yields. Source: Apache RocketMQ 4.9 and 5.x, ``ComparisonExpression``.
Value: TypeAlias = "bool | int | float | str | None"
"""The value of a constant, a property or an expression; None for an unknown one."""

_INT32: Final = range(-(1 << 31), 1 << 31)
_INT64: Final = range(-(1 << 63), 1 << 63)
_WHOLE: Final = re.compile(r"[+-]?[0-9]+")
_NUMBER: Final = re.compile(r"([+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?))[fFdD]?")


class Illegal(Exception):
    """These two values cannot be compared."""


def equal(left: Value, right: Value) -> bool | None:
    """``left = right``. Two unknown values are equal; no known value is equal to an unknown one on the right.

    Raises Illegal.
    """
    if left is None and right is not None:
        return None
    if right is None:
        return left is None
    if type(left) is type(right) and left == right:
        return True
    return compare(left, right) == 0


def ordered(left: Value, right: Value) -> int | None:
    """Below, at or above 0 as ``left`` is below, at or above ``right``; None if one is unknown. Raises Illegal."""
    if left is None or right is None:
        return None
    if isinstance(left, str) and isinstance(right, str):
        return compare(_double(left), _double(right))
    return compare(left, right)


def compare(left: Value, right: Value) -> int:
    """As `ordered`, of two known values; texts compare by their letters. Raises Illegal."""
    if isinstance(left, bool) and isinstance(right, str):
        raise Illegal
    if isinstance(left, str) and not isinstance(right, str):
        left = _as(right, left)
    elif isinstance(right, str) and not isinstance(left, str):
        right = _as(left, right)
    if isinstance(left, bool) != isinstance(right, bool):
        return -1
    if _is_nan(left) or _is_nan(right):  # NaN is above all other numbers
        return _is_nan(left) - _is_nan(right)
    return (left > right) - (left < right)  # type: ignore[operator]


def _is_nan(value: Value) -> bool:
    return isinstance(value, float) and isnan(value)


def _as(pattern: Value, text: str) -> Value:
    """The text converted to the type of ``pattern``. Raises Illegal if it cannot be."""
    if isinstance(pattern, bool):
        return text.lower() == "true"
    if isinstance(pattern, int):
        number = int(text) if _WHOLE.fullmatch(text) and len(text) <= 20 else 1 << 64
        if number not in (_INT32 if pattern in _INT32 else _INT64):
            raise Illegal
        return number
    return _double(text)


def _double(text: str) -> float:
    found = _NUMBER.fullmatch(text.strip())
    if found is None:
        raise Illegal
    return float(found[1])


# SQL92 expressions, compiled to functions of a message's properties.
#
# The grammar is the brokers': NOT binds closer than a comparison, IN takes texts, and an expression of unknown value
# matches nothing. One difference: text that follows a whole expression is refused, brokers ignore it. Source: Apache
# RocketMQ 4.9 and 5.x, ``SelectorParser.jj``.
Properties: TypeAlias = Mapping[str, str]
Evaluate: TypeAlias = Callable[[Properties], Value]

_LONGEST_SQL: Final = 16_384
_DEEPEST: Final = 100
_LARGEST: Final = (1 << 63) - 1
_SMALLEST_FLOAT: Final = 5e-324
_LARGEST_FLOAT: Final = 1.7976931348623157e308
_TOKEN: Final = re.compile(
    r"(?P<skip>[ \t\n\r\f]+|--[^\n\r]*|/\*.*?\*/)"
    r"|(?P<float>(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)"
    r"|(?P<int>(?:0|[1-9][0-9]*)[lL]?)"
    r"|(?P<text>'(?:''|[^'])*')"
    r"|(?P<name>[A-Za-z_$][A-Za-z0-9_$]*)"
    r"|(?P<sign><>|>=|<=|[=<>(),+-])",
    re.DOTALL,
)
_WORDS: Final = frozenset(
    ("NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH")
)
_CONSTANTS: Final[Mapping[str, bool | None]] = {"TRUE": True, "FALSE": False, "NULL": None}
_ORDERS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    ">": operator.gt,
    ">=": operator.ge,
    "<": operator.lt,
    "<=": operator.le,
}
_PARTS: Final[Mapping[str, Callable[[str, str], bool]]] = {
    "CONTAINS": operator.contains,
    "STARTSWITH": str.startswith,
    "ENDSWITH": str.endswith,
}


class _Kind(Enum):
    CONSTANT = "a constant"
    PROPERTY = "a property"
    BOOLEAN = "true or false"
    NUMBER = "a number"


class _Node(NamedTuple):
    kind: _Kind
    evaluate: Evaluate
    constant: Value = None

    @property
    def is_boolean(self) -> bool:
        """Whether the node is true, false or unknown by itself."""
        constant = self.kind is _Kind.CONSTANT and (self.constant is None or isinstance(self.constant, bool))
        return constant or self.kind is _Kind.BOOLEAN


class _Token(NamedTuple):
    kind: str
    text: str
    at: int


def matcher(expression: str) -> Callable[[Properties], bool]:
    """Compile an expression to a function of a message's properties. Raises Refused for an invalid expression."""
    if len(expression) > _LONGEST_SQL:
        raise Refused(
            Code.SUBSCRIPTION_PARSE_FAILED, f"an expression of {len(expression)} letters, most are {_LONGEST_SQL}"
        )
    evaluate = _Parser(expression).whole()

    def matches(properties: Properties) -> bool:
        try:
            return evaluate(properties) is True
        except Illegal:
            return False

    return matches


class _Parser:
    """A recursive descent parser, one token ahead."""

    def __init__(self, expression: str) -> None:
        self._tokens = _tokens(expression)
        self._depth = 0
        self._now = next(self._tokens)

    def whole(self) -> Evaluate:
        found = self._boolean(self._or()).evaluate
        if self._now.kind != "end":
            raise self._unexpected("the end")
        return found

    # Methods from the loosest binding to the closest.

    def _or(self) -> _Node:
        left = self._and()
        while self._skip("OR"):
            left = _either(self._boolean(left), self._boolean(self._and()), over=True)
        return left

    def _and(self) -> _Node:
        left = self._equality()
        while self._skip("AND"):
            left = _either(self._boolean(left), self._boolean(self._equality()), over=False)
        return left

    def _equality(self) -> _Node:
        left = self._comparison()
        while True:
            if self._skip("="):
                left = self._equal(left, self._comparison())
            elif self._skip("<>"):
                left = _not(self._equal(left, self._comparison()))
            elif self._skip("IS"):
                negated = self._skip("NOT")
                self._need("NULL")
                known = _is_null(left)
                left = _not(known) if negated else known
            else:
                return left

    def _comparison(self) -> _Node:
        left = self._unary()
        while True:
            word = self._now.text
            if word in _ORDERS:
                self._next()
                left = self._order(word, left, self._unary())
                continue
            negated = self._skip("NOT")
            if self._skip("BETWEEN"):
                left = self._between(left, negated=negated)
            elif self._skip("IN"):
                left = self._in(left, negated=negated)
            elif (word := self._now.text) in _PARTS:
                self._next()
                left = _part(_PARTS[word], left, self._text(), negated=negated)
            elif negated:
                raise self._unexpected("BETWEEN, IN, CONTAINS, STARTSWITH or ENDSWITH")
            else:
                return left

    def _unary(self) -> _Node:
        if self._skip("+"):
            return self._deeper(self._unary)
        if self._skip("-"):
            return _negative(self._deeper(self._unary))
        if self._skip("NOT"):
            return _not(self._boolean(self._deeper(self._unary)))
        return self._primary()

    def _primary(self) -> _Node:
        token = self._now
        if self._skip("("):
            found = self._deeper(self._or)
            self._need(")")
            return found
        if token.text in _CONSTANTS:
            self._next()
            return _constant(_CONSTANTS[token.text])
        if token.kind == "text":
            return _constant(self._text())
        if token.kind in ("int", "float"):
            self._next()
            return _constant(self._number(token))
        if token.kind != "name":
            raise self._unexpected("a property or a constant")
        self._next()
        return _Node(_Kind.PROPERTY, lambda properties: properties.get(token.text))

    # Comparisons.

    def _equal(self, left: _Node, right: _Node) -> _Node:
        for side in (left, right):
            if side.kind is _Kind.CONSTANT and side.constant is None:
                raise self._refused("NULL is not compared: write IS NULL")
        both = left.kind is right.kind is _Kind.CONSTANT
        if both and isinstance(left.constant, bool) and not isinstance(right.constant, bool):
            raise self._refused("TRUE and FALSE are compared with each other only")
        return _Node(_Kind.BOOLEAN, lambda p: equal(left.evaluate(p), right.evaluate(p)))

    def _order(self, word: str, left: _Node, right: _Node) -> _Node:
        for side in (left, right):
            if side.is_boolean or (side.kind is _Kind.CONSTANT and isinstance(side.constant, str)):
                raise self._refused(f"{word} compares numbers only")
        holds = _ORDERS[word]

        def evaluate(properties: Properties) -> Value:
            order = ordered(left.evaluate(properties), right.evaluate(properties))
            return None if order is None else holds(order, 0)

        return _Node(_Kind.BOOLEAN, evaluate)

    def _between(self, value: _Node, *, negated: bool) -> _Node:
        low = self._unary()
        self._need("AND")
        high = self._unary()
        if low.kind is high.kind is _Kind.CONSTANT:
            try:
                order = -1 if None in (low.constant, high.constant) else compare(high.constant, low.constant)
            except Illegal:
                order = -1
            if order < 0:
                raise self._refused("BETWEEN takes the smaller number first")
        if negated:
            return _either(self._order("<", value, low), self._order(">", value, high), over=True)
        return _either(self._order(">=", value, low), self._order("<=", value, high), over=False)

    def _in(self, left: _Node, *, negated: bool) -> _Node:
        if left.kind is not _Kind.PROPERTY:
            raise self._refused("IN is asked of a property")
        self._need("(")
        found = {self._text()}
        while self._skip(","):
            found.add(self._text())
        self._need(")")

        def evaluate(properties: Properties) -> Value:
            value = left.evaluate(properties)
            return None if value is None else (value in found) is not negated

        return _Node(_Kind.BOOLEAN, evaluate)

    def _boolean(self, node: _Node) -> _Node:
        if node.is_boolean:
            return node
        if node.kind is not _Kind.PROPERTY:
            raise self._refused(f"{node.kind.value} stands where true or false should")
        # A property is text, and no text is true by itself.
        return _Node(_Kind.BOOLEAN, lambda p: None if node.evaluate(p) is None else False)

    # Tokens.

    def _text(self) -> str:
        token = self._now
        if token.kind != "text":
            raise self._unexpected("a text in single quotes")
        self._next()
        return token.text[1:-1].replace("''", "'")

    def _number(self, token: _Token) -> int | float:
        if token.kind == "int":
            digits = token.text.rstrip("lL")
            if len(digits) > 19 or int(digits) > _LARGEST:
                raise self._refused(f"{digits[:30]} is above {_LARGEST}")
            return int(digits)
        number = float(token.text)
        if not _SMALLEST_FLOAT <= number <= _LARGEST_FLOAT:
            raise self._refused(
                f"{token.text[:30]} is not between {_SMALLEST_FLOAT} and {_LARGEST_FLOAT}: 0 has no point"
            )
        return number

    def _deeper(self, parse: Callable[[], _Node]) -> _Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._refused(f"more than {_DEEPEST} levels")
        found = parse()
        self._depth -= 1
        return found

    def _next(self) -> None:
        self._now = next(self._tokens)

    def _skip(self, word: str) -> bool:
        if self._now.text != word or self._now.kind in ("text", "name"):
            return False
        self._next()
        return True

    def _need(self, word: str) -> None:
        if not self._skip(word):
            raise self._unexpected(word)

    def _unexpected(self, wanted: str) -> Refused:
        found = self._now.text[:30] or "the end"
        return self._refused(f"{wanted} is missing where {found} stands")

    def _refused(self, why: str) -> Refused:
        return Refused(Code.SUBSCRIPTION_PARSE_FAILED, f"no SQL92 filter, at letter {self._now.at + 1}: {why}")


def _tokens(expression: str) -> Iterator[_Token]:
    at = 0
    while at < len(expression):
        found = _TOKEN.match(expression, at)
        if found is None:
            raise Refused(
                Code.SUBSCRIPTION_PARSE_FAILED,
                f"no SQL92 filter, at letter {at + 1}: {expression[at : at + 1]!r} begins nothing",
            )
        kind, text = str(found.lastgroup), found[0]
        if kind == "name" and text.upper() in _WORDS:
            kind, text = "word", text.upper()
        if kind != "skip":
            yield _Token(kind, text, at)
        at = found.end()
    while True:
        yield _Token("end", "", at)


def _constant(value: Value) -> _Node:
    return _Node(_Kind.CONSTANT, lambda _: value, value)


def _negative(node: _Node) -> _Node:
    def evaluate(properties: Properties) -> Value:
        value = node.evaluate(properties)
        return -value if isinstance(value, int | float) and not isinstance(value, bool) else None

    return _Node(_Kind.NUMBER, evaluate)


def _not(node: _Node) -> _Node:
    def evaluate(properties: Properties) -> Value:
        value = node.evaluate(properties)
        return None if value is None else not value

    return _Node(_Kind.BOOLEAN, evaluate)


def _either(left: _Node, right: _Node, *, over: bool) -> _Node:
    """OR if ``over`` is True, AND if it is False: ``over`` is the value that decides as soon as one side has it."""

    def evaluate(properties: Properties) -> Value:
        first = left.evaluate(properties)
        if first is over:
            return over
        second = right.evaluate(properties)
        if second is over:
            return over
        return None if first is None or second is None else not over

    return _Node(_Kind.BOOLEAN, evaluate)


def _is_null(node: _Node) -> _Node:
    return _Node(_Kind.BOOLEAN, lambda p: node.evaluate(p) is None)


def _part(holds: Callable[[str, str], bool], node: _Node, part: str, *, negated: bool) -> _Node:
    """An empty part matches nothing, negated or not."""

    def evaluate(properties: Properties) -> Value:
        value = node.evaluate(properties)
        return bool(part) and isinstance(value, str) and holds(value, part) is not negated

    return _Node(_Kind.BOOLEAN, evaluate)


Wanted = Callable[[Stored], bool]

_EVERYTHING: Final = frozenset({"", "*"})
_TAGS: Final = "TAGS"
_LONGEST_FILTER: Final = 65_536
_LONGEST_KEPT: Final = 1_024


def wanted_by(expression: str | None, kind: str | None) -> Wanted | None:
    """What a subscription's expression of a kind (TAG by default) lets through; None for everything.

    Raises Refused for an unknown kind and for an invalid SQL92 expression. (Brokers let everything through when an
    invalid expression comes with a pull.)
    """
    if expression is not None and len(expression) > _LONGEST_FILTER:
        raise Refused(
            Code.SUBSCRIPTION_PARSE_FAILED, f"an expression of {len(expression)} letters, most are {_LONGEST_FILTER}"
        )
    if expression is not None and len(expression) > _LONGEST_KEPT:
        return _read(expression, kind)
    return _short(expression, kind)


@lru_cache(1_000)
def _short(expression: str | None, kind: str | None) -> Wanted | None:
    """Cached only for short expressions, as most are: a thousand of the longest would take a node's memory."""
    return _read(expression, kind)


def _read(expression: str | None, kind: str | None) -> Wanted | None:
    if kind == "SQL92":
        matches = matcher(expression or "")
        return lambda record: matches(_properties(record))
    if kind not in (None, "", "TAG"):
        raise Refused(Code.SYSTEM_ERROR, f"The broker does not support consumer to filter message by {kind}")
    if expression is None or expression.strip() in _EVERYTHING:
        return None
    tags = frozenset(tag.strip().encode() for tag in expression.split("||") if tag.strip())
    return lambda record: _tag_of(record) in tags


def _properties(record: Stored) -> dict[str, str]:
    return {name: value.decode("utf-8", "replace") for name, value in record.headers if value is not None}


def _tag_of(record: Stored) -> bytes | None:
    for name, value in record.headers:
        if name == _TAGS:
            return value
    return None
