"""Which sources of a query are to be converted, and where each begins, according to the lines of all batches.

What must not live here: files; how a line is written.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError
from penstock.model import Partition
from penstock.spark._offsets import Positions
from penstock.spark.checkpoint.forms import Form, form_of, positions_of
from penstock.spark.checkpoint.offset_log import NOTHING, Batch

__all__ = ["Source", "sources_of"]


@dataclass(frozen=True, slots=True)
class Source:
    """A source: its line in every batch that has one, by the batch's number."""

    key: str
    lines: Mapping[int, str]

    def ends(self) -> Mapping[int, Positions]:
        """Where each batch ends."""
        return {number: positions_of(text) for number, text in self.lines.items()}

    def forms(self) -> set[Form]:
        """Whose lines these are."""
        return {form_of(text) for text in self.lines.values()}

    def topics(self) -> set[str]:
        """The topics of all batches."""
        return {partition.topic for end in self.ends().values() for partition in end}

    def begin(self, initials: Mapping[str, Positions]) -> Positions | None:
        """Where the query began, by the connector's initial files; None if none fits, or several that differ."""
        first = self.ends()[min(self.lines)]
        fitting = [each for key, each in initials.items() if key == self.key and _fits(each, first)]
        fitting = fitting or [each for each in initials.values() if each and _fits(each, first)]
        return fitting[0] if fitting and all(each == fitting[0] for each in fitting) else None


def sources_of(
    batches: Sequence[Batch], initials: Mapping[str, Positions], wanted: Form, named: Collection[str]
) -> tuple[list[Source], list[str]]:
    """(the sources to convert into the form ``wanted``, the keys of the others).

    ``named`` are the keys of sources that are Kafka's according to the user. Raises ConfigError if a source only looks
    like the connector's: to rewrite another source's offsets would break its query.
    """
    keys = list(dict.fromkeys(key for batch in batches for key in batch.offsets))
    if unknown := set(named) - set(keys):
        raise ConfigError(f"no source {', '.join(sorted(unknown))}", hint=f"There are: {', '.join(keys)}")
    ours: list[Source] = []
    others: list[str] = []
    for key in keys:
        source = Source(key, {b.number: b.offsets[key] for b in batches if b.offsets.get(key, NOTHING) != NOTHING})
        forms = source.forms()
        if not forms or Form.ANOTHER in forms:
            _check_is_anothers(source, named)
            others.append(key)
        else:
            if wanted is Form.OURS and Form.OURS not in forms:
                _check_is_connectors(source, initials, named)
            ours.append(source)
    return ours, others


def _check_is_anothers(source: Source, named: Collection[str]) -> None:
    """A source with some batches of Kafka's has a damaged line; leaving it out would convert half a query."""
    odd = {number: text for number, text in source.lines.items() if form_of(text) is Form.ANOTHER}
    kafkas = [text for text in source.lines.values() if form_of(text) is not Form.ANOTHER and positions_of(text)]
    if source.key in named or (odd and kafkas):
        batch, text = max(odd.items(), default=(-1, NOTHING))
        where = f"offsets/{batch}: " if odd else ""
        raise ConfigError(
            f"{where}source {source.key} has an offset that is not a Kafka source's: {text[:80]}",
            hint="Nothing was changed",
        )


def _check_is_connectors(source: Source, initials: Mapping[str, Positions], named: Collection[str]) -> None:
    known = {partition.topic for positions in initials.values() for partition in positions}
    if source.key in named or source.key in initials or source.topics() & known:
        return
    raise ConfigError(
        f"the offsets of source {source.key} look like those of Spark's Kafka connector, "
        f"but its file sources/{source.key}/0 is missing",
        hint=f"If it is the connector's, say so: --source {source.key}. Nothing was changed",
    )


def _fits(begin: Positions, end: Positions) -> bool:
    """Whether a batch can have begun there: no partition of both goes back, and not all of ``begin`` are gone."""
    both: set[Partition] = set(begin) & set(end)
    return all(begin[each] <= end[each] for each in both) and (bool(both) or not begin)
