"""Regular expressions of topics and transactional ids, as clients send them: RE2's language, as real brokers'.

RE2 takes time in proportion to what it reads, whatever the expression; Python's own can be made to take for ever.
"""

from __future__ import annotations

from collections.abc import Collection

__all__ = ["flaw_of", "matching"]


def flaw_of(pattern: str) -> str | None:
    """Say why this is no regular expression; None where it is one."""
    import pyarrow as pa  # its RE2 is the one there is; a node without patterns need not load it
    from pyarrow import compute

    try:
        for each in (pattern, _whole(pattern)):  # "a)|(b" is none, "\\Qa" is one that has no end
            compute.match_substring_regex(pa.array([""]), each)
    except pa.ArrowInvalid as error:
        return str(error).removeprefix("Invalid regular expression: ")
    return None


def matching(pattern: str, names: Collection[str]) -> frozenset[str]:
    """Return the names that match from their beginning to their end."""
    import pyarrow as pa
    from pyarrow import compute

    ordered = list(names)
    if not ordered:
        return frozenset()
    meant = compute.match_substring_regex(pa.array(ordered, pa.string()), _whole(pattern)).to_pylist()
    return frozenset(name for name, means in zip(ordered, meant, strict=True) if means)


def _whole(pattern: str) -> str:
    return rf"\A(?:{pattern})\z"
