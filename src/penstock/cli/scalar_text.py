"""Few records as lines of text, and lines for a terminal: one by one, without Arrow's functions (0.1 s to load).

`record_text` does many records, by columns.
"""

from __future__ import annotations

import sys
from typing import Final

from penstock.records.messages import Part

__all__ = ["is_few", "text_lines"]

_MANY: Final = 1_000


class _State:
    """How many records this process has handled one by one."""

    handled = 0


def is_few(records: int) -> bool:
    """Whether handling this many more one by one is cheaper than loading Arrow's functions, if they are not loaded."""
    if "pyarrow.compute" in sys.modules:
        return False
    _State.handled += records
    return _State.handled < _MANY


def text_lines(part: Part, separator: bytes = b"", *, for_people: bool = False) -> bytes:
    """Key and separator if there is one, value, line feed: the bytes as they are, escaped only for a terminal."""
    lines = [value or b"" for value in part.batch.column("value").to_pylist()]
    if separator:
        keys = part.batch.column("key").to_pylist()
        lines = [(key or b"") + separator + line for key, line in zip(keys, lines, strict=True)]
    if for_people:
        lines = [line.decode("utf-8", "backslashreplace").encode() for line in lines]
    return b"\n".join([*lines, b""])
