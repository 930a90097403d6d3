"""The columns of a row to be written: those of Spark's own Kafka sink, and a timestamp. Checked before any task runs.

What must not live here: Arrow and PySpark; types come in as Spark's short names (``array<struct<key:string,…>>``).
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence

from penstock._dataclasses import dataclass
from penstock.errors import UsageError

__all__ = ["WRITTEN", "Columns", "check_columns"]


@dataclass(frozen=True, slots=True)
class _Expected:
    """A column's type: in words for users, and as a pattern over Spark's short type names."""

    words: str
    pattern: str
    hint: str


_TEXT = r"binary|string( collate \S+)?|(var)?char\(\d+\)"
_BYTES = _Expected(
    "string or binary", _TEXT, "Serialise it first, for example to_json(struct(…)), or cast it to string"
)
WRITTEN: Mapping[str, _Expected] = {
    "key": _BYTES,
    "value": _BYTES,
    "headers": _Expected(
        "array<struct<key string, value binary>>",
        r"array<struct<key:string,value:(binary|string)>>|map<string,(binary|string)>",
        "Build it with array(struct(lit(NAME) as key, encode(TEXT, 'UTF-8') as value)), or as a map",
    ),
    "topic": _Expected("string", r"string( collate \S+)?|(var)?char\(\d+\)", "Cast it to string"),
    "partition": _Expected("int", "int", "Cast it: col('partition').cast('int')"),
    "timestamp": _Expected(
        "timestamp", "timestamp", "Cast it to timestamp (with a time zone: an instant, not a wall clock)"
    ),
}
"""The columns that are written; only ``value`` is required. Others are left out, as by Spark's own sink."""

_OF_OUR_SOURCE = ("offset", "timestamptype", "node")
_NEAR = 0.8


@dataclass(frozen=True, slots=True)
class Columns:
    """Where the columns to write are among the given ones: (our name, index), in the order of ``WRITTEN``."""

    places: tuple[tuple[str, int], ...]

    def __contains__(self, name: object) -> bool:
        return any(name == each for each, _ in self.places)


def check_columns(fields: Sequence[tuple[str, str]], *, topic: str | None) -> Columns:
    """Find the columns to write. ``fields`` are (name, Spark's short type); ``topic`` is the option's, which wins.

    Case does not matter, as everywhere in Spark. Raises UsageError for a missing value, a type that cannot be written,
    the same column twice, rows without any topic, and a column whose name looks like one of ours misspelt: leaving it
    out would lose data silently.
    """
    found: dict[str, tuple[int, str]] = {}
    for index, (name, kind) in enumerate(fields):
        lower = name.lower()
        if lower in found:
            raise UsageError(f"column {lower} appears twice", hint="Rename or drop one of them")
        if lower in WRITTEN:
            found[lower] = (index, kind)
    for name, kind in fields:
        _refuse_near_miss(name, kind, found)
    if "value" not in found:
        raise UsageError(
            f"column value is missing; the columns are {', '.join(name for name, _ in fields) or 'none'}",
            hint="Name the bytes to write: select(to_json(struct('*')).alias('value'))",
        )
    if topic is None and "topic" not in found:
        raise UsageError(
            "nothing says which topic to write to",
            hint='Set the option "topic", put it into the address (kafka://host:port/topic), or add a column topic',
        )
    wanted = [name for name in WRITTEN if name in found and not (name == "topic" and topic is not None)]
    for name in wanted:
        _check_type(name, found[name][1])
    return Columns(tuple((name, found[name][0]) for name in wanted))


def _check_type(name: str, kind: str) -> None:
    wanted = WRITTEN[name]
    # A column of nulls has the type void: nothing to write, nothing wrong.
    if kind != "void" and not re.fullmatch(wanted.pattern, kind):
        raise UsageError(f"column {name} is {kind}, expected {wanted.words}", hint=wanted.hint)


def _refuse_near_miss(name: str, kind: str, found: Mapping[str, object]) -> None:
    lower = name.lower()
    if lower in WRITTEN or lower in _OF_OUR_SOURCE:
        return
    near = difflib.get_close_matches(lower, [each for each in WRITTEN if each not in found], n=1, cutoff=_NEAR)
    if near:
        raise UsageError(
            f"column {name} ({kind}) would not be written", hint=f"Did you mean {near[0]}? Else drop or rename it"
        )
