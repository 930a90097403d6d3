"""Regular expressions of topic names, as members of newer groups send them: RE2's language, as real brokers'.

RE2 takes time in proportion to what it reads, whatever the expression; Python's own can be made to take for ever.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.protocols.kafka.consumer_groups.requests import BeatRefused
from penstock.protocols.kafka.error_codes import ErrorCode

__all__ = ["check_pattern", "matching"]


def check_pattern(pattern: str) -> None:
    """Raises BeatRefused where it is none."""
    import pyarrow as pa  # its RE2 is the one there is; a node without patterns need not load it
    from pyarrow import compute

    try:
        for each in (pattern, _whole(pattern)):  # "a)|(b" is none, "\\Qa" is one that has no end
            compute.match_substring_regex(pa.array([""]), each)
    except pa.ArrowInvalid as error:
        why = str(error).removeprefix("Invalid regular expression: ")
        raise BeatRefused(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: {why}",
        ) from None


def matching(pattern: str, names: Collection[str]) -> frozenset[str]:
    """The names that it means: from their beginning to their end."""
    import pyarrow as pa
    from pyarrow import compute

    ordered = list(names)
    if not ordered:
        return frozenset()
    meant = compute.match_substring_regex(pa.array(ordered, pa.string()), _whole(pattern)).to_pylist()
    return frozenset(name for name, means in zip(ordered, meant, strict=True) if means)


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"
