"""Formats few records as lines of text, and lines for a terminal, without Arrow's functions, which load for 0.1 s.

`record_text` formats many records, by columns.
"""

from __future__ import annotations

import sys
from typing import Final

from penstock.records.messages import Part

__all__ = ["is_few", "text_lines"]

_MANY: Final = 1_000


class _State:
    """The number of records that this process has formatted one by one."""

    handled = 0


def is_few(records: int) -> bool:
    """Whether formatting so many more one by one is faster than loading Arrow's functions; False if they are loaded."""
    if "pyarrow.compute" in sys.modules:
        return False
    _State.handled += records
    return _State.handled < _MANY


def text_lines(part: Part, separator: bytes = b"", *, for_people: bool = False) -> bytes:
    """Key and separator (if there is one), value, line feed: the unchanged bytes, escaped only for a terminal."""
    lines = [value or b"" for value in part.batch.column("value").to_pylist()]
    if separator:
        keys = part.batch.column("key").to_pylist()
        lines = [(key or b"") + separator + line for key, line in zip(keys, lines, strict=True)]
    if for_people:
        lines = [line.decode("utf-8", "backslashreplace").encode() for line in lines]
    return b"\n".join([*lines, b""])
