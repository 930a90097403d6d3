"""Converts one source's lines in all batches from one form into the other.

What must not live here: which sources (``sources``); files.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock.errors import ConfigError
from penstock.spark._offsets import Positions
from penstock.spark.checkpoint.forms import Form, begin_of, connector_text, form_of, initial_content, our_text
from penstock.spark.checkpoint.sources import Source

__all__ = ["first_begins", "lines_of"]


def lines_of(
    source: Source, wanted: Form, oldest: int, initials: Mapping[str, Positions], commits: Collection[int]
) -> dict[int, str]:
    """The line of each batch in the form ``wanted``; those that already have it stay as they are.

    ``oldest`` is the oldest batch of the log; Spark deletes old ones. Raises ConfigError if it is unknown what an
    uncompleted batch was to read.
    """
    before = source.begin(initials) if oldest == 0 else None
    ends = source.ends()
    lines: dict[int, str] = {}
    for number, end in sorted(ends.items()):
        text = source.lines[number]
        if form_of(text) is not wanted:
            if wanted is Form.OURS and before is None and number not in commits:
                raise _begin_unknown(source, number)
            # Of a completed batch, Spark only ever asks where it ended.
            text = connector_text(end) if wanted is Form.CONNECTOR else our_text(end if before is None else before, end)
        lines[number], before = text, end
    return lines


def first_begins(sources: Sequence[Source], initials: Mapping[str, Positions]) -> dict[str, bytes]:
    """The connector's initial files, for a query that has not completed its first batch."""
    if len({tuple(each.lines.items()) for each in sources}) < len(sources):
        raise ConfigError(
            "the first batch was not completed, and two sources of it look alike: the connector would not know where "
            "they begin",
            hint="Let the query complete it, then stop it and run this again. Nothing was changed",
        )
    begins = {each.key: begin_of(each.lines[min(each.lines)]) for each in sources if each.key not in initials}
    return {key: initial_content(begin) for key, begin in begins.items() if begin is not None}


def _begin_unknown(source: Source, number: int) -> ConfigError:
    return ConfigError(
        f"batch {number} was planned and not completed, and nothing says where it begins in source {source.key}",
        hint="Let the query complete it, then stop it and run this again. Nothing was changed",
    )
