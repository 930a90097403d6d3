"""What users say of single records that are to be found, checked. What must not live here: finding them."""

from __future__ import annotations

from typing import Final

from penstock.client._arguments import LARGEST_OFFSET, whole_number
from penstock.errors import UsageError

__all__ = ["EVER", "check_finding"]

EVER: Final = (0, LARGEST_OFFSET)
"""All times, in ms since 1970."""

_MOST: Final = 10_000


def check_finding(
    topic: object, key: object, record_id: object, between_ms: tuple[object, object], most: object
) -> None:
    """Raises UsageError for what no log could be asked."""
    for name, given in (("topic", topic), ("key", key), ("record_id", record_id)):
        if given is not None and (not isinstance(given, str) or not given):
            raise UsageError(f"{name} is {given!r}, it must be text", hint="Keys and ids are text")
    if (key is None) == (record_id is None):
        raise UsageError("records are found by a key or by an id", hint="Give key=… or record_id=…, one of them")
    begin, end = (whole_number("a time", each) for each in between_ms)
    if not 0 <= begin <= end <= LARGEST_OFFSET:
        raise UsageError(f"there is no time between {begin} and {end}", hint="Give milliseconds since 1970")
    if not 1 <= whole_number("most", most) <= _MOST:
        raise UsageError(f"most is {most}, it must be between 1 and {_MOST}")
