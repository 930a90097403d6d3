"""Rewrites the offsets of a checkpoint from one form into the other, and survives being killed at any moment.

Each file shows its own form, and to convert a batch, that batch is enough (with the one before it, in either form). So
a conversion that was killed midway is finished by running it again, or undone by converting back. In addition, before
anything is replaced:

1. what will be replaced is copied to ``originals/<form>/<batch>``;
2. the numbers of those batches go to ``originals/unfinished``; this file is deleted last.

If a file system cannot replace a file in one step and was interrupted, a missing or damaged batch is restored from its
copy. Commits, state, ``metadata`` and the other sources' files stay as they are; so do the connector's files in
``sources``, which only it reads and the way back needs. What must not live here: whose a line is (``sources``), how it
is written (``forms``), where files are (``files``).
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError, UsageError
from penstock.spark._offsets import Positions
from penstock.spark.checkpoint.files import Files
from penstock.spark.checkpoint.forms import Form, connector_text, initial_of, positions_of
from penstock.spark.checkpoint.lines import first_begins, lines_of
from penstock.spark.checkpoint.offset_log import Batch, parse_batch
from penstock.spark.checkpoint.sources import sources_of

__all__ = ["Conversion", "Plan", "carry_out", "plan"]

_UNFINISHED = "originals/unfinished"


@dataclass(frozen=True, slots=True)
class Conversion:
    """What a conversion did, or would do. Sources by their keys: places in the query (0, 1, …) or names."""

    wanted: Form
    converted: tuple[int, ...]
    """Batches whose files change; empty if all of them already have the form."""
    sources: tuple[str, ...]
    others: tuple[str, ...]
    """Sources that are not Kafka's; their lines stay."""
    last: int
    """The newest batch."""
    uncommitted: bool
    """Whether the newest batch was planned and not completed: the query will run it again, with the same records."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything to write: copies of the old files, the converted batches, the connector's initial files."""

    result: Conversion
    originals: Mapping[int, bytes]
    contents: Mapping[int, bytes]
    initials: Mapping[str, bytes]
    newest_s: float
    """When a batch was last planned or committed (seconds since 1970)."""


def plan(files: Files, wanted: Form, named: Collection[str] = ()) -> Plan:
    """Plan the conversion of a checkpoint; writes nothing. Raises ConfigError and UsageError if it cannot be done."""
    times, commits = (_numbered(files.modified(folder)) for folder in ("offsets", "commits"))
    there = {number: content for number in times if (content := files.read(f"offsets/{number}")) is not None}
    whole = {**there, **_interrupted(files, there, commits)}
    initials = _initials(files)
    if not whole:
        raise _nothing_planned(initials)
    batches = [parse_batch(number, whole[number]) for number in sorted(whole)]
    sources, others = sources_of(batches, initials, wanted, named)
    if not sources:
        raise UsageError("no source of this query is a Kafka source", hint="Nothing was changed")
    begins = _by_source(initials, [each.key for each in sources])
    lines = {each.key: lines_of(each, wanted, batches[0].number, begins, commits) for each in sources}
    new = {batch.number: _with(batch, lines).content() for batch in batches}
    contents = {number: content for number, content in new.items() if content != there.get(number)}
    last = batches[-1].number
    uncommitted = last not in commits
    return Plan(
        Conversion(wanted, tuple(contents), tuple(each.key for each in sources), tuple(others), last, uncommitted),
        originals={number: whole[number] for number in contents},
        contents=contents,
        initials=first_begins(sources, initials) if wanted is Form.CONNECTOR and uncommitted and not last else {},
        newest_s=max([*times.values(), *commits.values()], default=0.0),
    )


def carry_out(files: Files, planned: Plan) -> None:
    """Write what was planned. Raises UsageError if something else wrote meanwhile."""
    if not planned.contents:
        files.delete(_UNFINISHED)
        return
    before = Form.CONNECTOR if planned.result.wanted is Form.OURS else Form.OURS
    for number, content in planned.originals.items():
        copy = f"originals/{before.value}/{number}"
        if files.read(copy) != content:
            files.replace(copy, content)
    noted = {"from": before.value, "batches": sorted(planned.contents)}
    files.replace(_UNFINISHED, json.dumps(noted).encode())
    for key, content in planned.initials.items():
        files.replace(f"sources/{key}/0", content)
    for number, content in planned.contents.items():
        files.replace(f"offsets/{number}", content)
    _check_alone(files, planned)
    files.delete(_UNFINISHED)


def _check_alone(files: Files, planned: Plan) -> None:
    changed = [number for number, content in planned.contents.items() if files.read(f"offsets/{number}") != content]
    newer = [number for number in _numbered(files.modified("offsets")) if number > planned.result.last]
    if changed or newer:
        raise UsageError(
            f"somebody else wrote or deleted offsets/{', '.join(map(str, sorted([*changed, *newer])))} meanwhile",
            hint="Stop the query, then run this again",
        )


def _with(batch: Batch, lines: Mapping[str, Mapping[int, str]]) -> Batch:
    return batch.with_offsets({key: of[batch.number] for key, of in lines.items() if batch.number in of})


def _interrupted(files: Files, there: Mapping[int, bytes], commits: Collection[int]) -> dict[int, bytes]:
    """Copies of the batches that a killed conversion removed or left damaged.

    Not of those that Spark itself has deleted since: it deletes a batch's commit too.
    """
    try:
        noted = json.loads(files.read(_UNFINISHED) or b"null")
    except ValueError:
        return {}  # killed as it noted them: nothing had been replaced
    if noted is None:
        return {}
    copies = {number: files.read(f"originals/{noted['from']}/{number}") for number in noted["batches"]}
    return {
        number: copy
        for number, copy in copies.items()
        if copy is not None
        and (number in commits or number > max(commits, default=-1))
        and not _is_of_same_batch(number, there.get(number, b""), copy)
    }


def _is_of_same_batch(number: int, content: bytes, copy: bytes) -> bool:
    """Whether a file is whole: it says the same as its copy, in either form."""
    known = parse_batch(number, copy)
    try:
        found = parse_batch(number, content)
        return (found.metadata, found.offsets.keys()) == (known.metadata, known.offsets.keys()) and all(
            line == known.offsets[key] or positions_of(line) == positions_of(known.offsets[key])
            for key, line in found.offsets.items()
        )
    except ConfigError:
        return False


def _numbered(times: Mapping[str, float]) -> dict[int, float]:
    return {int(name): at for name, at in times.items() if name.isascii() and name.isdigit()}


def _initials(files: Files) -> dict[str, Positions]:
    """Where the connector's sources began, by the names of its files."""
    contents = {key: files.read(f"sources/{key}/0") for key in files.folders("sources")}
    found = {key: initial_of(content) for key, content in contents.items() if content is not None}
    return {key: positions for key, positions in found.items() if positions is not None}


def _by_source(initials: Mapping[str, Positions], keys: Collection[str]) -> Mapping[str, Positions]:
    """The same, under names that no source has if the files' numbers cannot be trusted.

    A source that a query uses twice has two lines but one file, so all later files have smaller numbers than their
    lines, and the last source has none.
    """
    return initials if set(keys) <= initials.keys() else {f"sources/{key}": each for key, each in initials.items()}


def _nothing_planned(initials: Mapping[str, Positions]) -> UsageError:
    if not initials:
        return UsageError("this is no checkpoint of a query: its folder offsets has no batches")
    starts = "; ".join(connector_text(each) for each in initials.values())
    return UsageError(
        "the query was stopped before it planned its first batch; there is nothing to convert",
        hint=f"Use a new checkpoint, and as startingOffsets where the query would have begun: {starts}",
    )
