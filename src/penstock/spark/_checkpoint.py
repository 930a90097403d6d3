"""Converts checkpoints of Spark's own Kafka connector to ours, and back, so that a query can change its source.

The parts in this order: access to files (`Files`), the two forms of an offset (`Form`), Spark's offset log (`Batch`),
the sources of a query (`Source`), the plan and its execution (`plan`, `carry_out`), and the public function
(`convert_checkpoint`).
"""

from __future__ import annotations

import enum
import json
import os
import shutil
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from msgspec import Struct
from msgspec.structs import replace

from penstock.errors import ConfigError, UsageError
from penstock.model import Partition
from penstock.spark._offsets import BatchOffset, Positions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = [
    "NOTHING",
    "Batch",
    "Conversion",
    "Files",
    "Form",
    "LocalFiles",
    "Plan",
    "Source",
    "begin_of",
    "carry_out",
    "connector_text",
    "convert_checkpoint",
    "first_begins",
    "form_of",
    "initial_content",
    "initial_of",
    "is_local",
    "lines_of",
    "our_text",
    "parse_batch",
    "plan",
    "positions_of",
    "sources_of",
]


# The files of a checkpoint: the operations that a conversion needs, and a local folder.
class Files(Protocol):
    """Files in a checkpoint's folder, by their paths relative to it, with ``/`` between the parts."""

    def modified(self, folder: str) -> Mapping[str, float]:
        """A folder's files, and when each was written (seconds since 1970); none if the folder is missing."""
        ...

    def folders(self, folder: str) -> list[str]:
        """The names of a folder's folders; none if the folder is missing."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's content; None if it is missing."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Write a file, and its folder; atomically if the file system can.

        Hadoop's checksum file for it would no longer match, so it is deleted first.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file if it exists."""
        ...


class LocalFiles:
    """A folder of this machine. Files keep their owner and mode, so that the query's user can still read them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def modified(self, folder: str) -> Mapping[str, float]:
        found = self._root / folder
        return {each.name: each.stat().st_mtime for each in found.iterdir() if each.is_file()} if found.is_dir() else {}

    def folders(self, folder: str) -> list[str]:
        found = self._root / folder
        return sorted(each.name for each in found.iterdir() if each.is_dir()) if found.is_dir() else []

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, path: str, content: bytes) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # Always the same name, to overwrite the file of a killed run. Spark ignores names that are not numbers.
        written = target.with_name(f".{target.name}.converted")
        with written.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self._as_before(target, written)
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)
        written.replace(target)
        self._sync(target.parent)

    def delete(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def _as_before(self, target: Path, written: Path) -> None:
        like = target if target.exists() else self._root / "metadata"
        with suppress(FileNotFoundError):
            shutil.copymode(like, written)
            owner = like.stat()
            with suppress(PermissionError):
                os.chown(written, owner.st_uid, owner.st_gid)

    @staticmethod
    def _sync(folder: Path) -> None:
        entry = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)


# The two forms of a source's offset: that of Spark's own Kafka connector, and ours; and the connector's initial file.
#
#     the connector's    {"topic":{"0":23,"1":42}}                                      the end of the batch
#     ours               {"v": 1, "from": {"topic": {…}}, "to": {"topic": {…}}}         its start and its end
#
# The connector keeps the start of a query's first batch in a separate file, ``sources/<source>/0``: a zero byte, the
# line ``v1``, and an offset (``KafkaSourceInitialOffsetWriter``).
_INITIAL = b"\x00v1\n"


class Form(enum.Enum):
    """The connector that an offset belongs to."""

    CONNECTOR = "connector"
    OURS = "penstock"
    ANOTHER = "another"


def form_of(text: str) -> Form:
    """The form of an offset's text. Raises ConfigError if it is ours in an unknown version."""
    tree = _json(text)
    if isinstance(tree, dict) and isinstance(tree.get("v"), int) and {"from", "to"} <= tree.keys():
        BatchOffset.from_json(tree)
        return Form.OURS
    return Form.ANOTHER if _positions(tree) is None else Form.CONNECTOR


def positions_of(text: str) -> Positions:
    """The end of a batch, in either form."""
    tree = _json(text)
    found = _positions(tree)
    return BatchOffset.from_json(tree).end if found is None else found


def begin_of(text: str) -> Positions | None:
    """The start of a batch, if its form has it."""
    tree = _json(text)
    return BatchOffset.from_json(tree).start if _positions(tree) is None else None


def our_text(begin: Positions, end: Positions) -> str:
    """A batch in our form, as Spark stores it.

    To Spark equal text means "no new data", so this is exactly what PySpark writes: ``json.dumps`` with its defaults. A
    partition that ``begin`` lacks is new: the connector, like ours, reads it from offset 0 on, and reports a loss if
    that is gone. A partition that goes backwards was recreated: the connector, like ours, reads nothing of it.
    """
    start = {partition: min(begin.get(partition, 0), offset) for partition, offset in end.items()}
    return json.dumps(BatchOffset(start, end).to_json())


def connector_text(positions: Positions) -> str:
    """Positions in the connector's form. Raises ConfigError for partitions that Kafka cannot have."""
    tree: dict[str, dict[str, int]] = {}
    for partition in sorted(positions, key=lambda each: (each.topic, each.id)):
        if partition.node:
            raise ConfigError(
                f"{partition} cannot be a Kafka partition: Spark's own connector cannot read it",
                topic=partition.topic,
                partition=partition.id,
                hint="Nothing was changed",
            )
        tree.setdefault(partition.topic, {})[str(partition.id)] = positions[partition]
    return json.dumps(tree, separators=(",", ":"), ensure_ascii=False)


def initial_of(content: bytes) -> Positions | None:
    """The positions in a file ``sources/<source>/0``; None if the connector did not write it."""
    if not content.startswith(_INITIAL):
        return None
    return _positions(_json(content.removeprefix(_INITIAL).decode(errors="replace")))


def initial_content(positions: Positions) -> bytes:
    """The file that the connector would have written for a query that began there."""
    return _INITIAL + connector_text(positions).encode()


def _json(text: str) -> object:
    try:
        tree: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return tree


def _positions(tree: object) -> dict[Partition, int] | None:
    """A tree with only topics, partitions and offsets; None for anything else."""
    if not isinstance(tree, dict):
        return None
    found: dict[Partition, int] = {}
    for topic, partitions in tree.items():
        if not isinstance(partitions, Mapping) or not partitions:
            return None
        for key, offset in partitions.items():
            if not (key.isascii() and key.isdigit()) or isinstance(offset, bool) or not isinstance(offset, int):
                return None
            if offset < 0:
                return None
            found[Partition(topic, int(key))] = offset
    return found


# Spark's offset log: the files ``offsets/<batch>`` of a checkpoint, taken apart and put together again, byte for byte.
#
#     v1                                       v2
#     {"batchWatermarkMs":0,…}                 {"batchWatermarkMs":0,…}
#     <offset of the first source>             <name of a source>:<its offset>
#     <offset of the second>                   …
#
# An offset is one line in the source's own form; ``-`` if a source has none yet. In version 2 (Spark 4.2 and later, for
# sources with names) an unnamed source has its index as its name.
NOTHING = "-"
_VERSIONS = ("v1", "v2")


class Batch(Struct, frozen=True):
    """One file. ``offsets`` are the lines of its sources by their keys: indexes ("0", "1", …) or names."""

    number: int
    version: str
    metadata: str
    offsets: Mapping[str, str]

    def with_offsets(self, offsets: Mapping[str, str]) -> Batch:
        """The same batch, with other lines for the sources in ``offsets``."""
        return replace(self, offsets={**self.offsets, **offsets})

    def content(self) -> bytes:
        """The file."""
        named = self.version != "v1"
        lines = [f"{key}:{offset}" if named else offset for key, offset in self.offsets.items()]
        return "\n".join([self.version, self.metadata, *lines]).encode()


def parse_batch(number: int, content: bytes) -> Batch:
    """Take a file apart. Raises ConfigError if it is damaged, or of an unknown version."""
    try:
        version, *rest = content.decode().split("\n")
    except UnicodeDecodeError:
        version, rest = "", []
    if version not in _VERSIONS:
        raise ConfigError(
            f"offsets/{number} begins with {version[:20]!r}: only versions {' and '.join(_VERSIONS)} are known",
            hint="Nothing was changed. A newer Spark needs a newer penstock; a damaged file, its copy from a backup",
        )
    if not rest or not rest[0].startswith("{"):
        raise ConfigError(f"offsets/{number} is damaged: it ends before its metadata", hint="Nothing was changed")
    metadata, *lines = rest
    batch = Batch(number, version, metadata, _by_key(number, version, lines))
    assert batch.content() == content
    return batch


def _by_key(number: int, version: str, lines: list[str]) -> Mapping[str, str]:
    if version == "v1":
        return {str(place): line for place, line in enumerate(lines)}
    found = {}
    for line in lines:
        name, colon, offset = line.partition(":")
        if not colon or not name or name in found:
            raise ConfigError(f"offsets/{number} is damaged: {line[:80]!r} names no source", hint="Nothing was changed")
        found[name] = offset
    return found


# The sources of a query: which ones to convert, and where each begins, according to the lines of all batches.
class Source(Struct, frozen=True):
    """A source: its line in every batch that has one, by the batch's number."""

    key: str
    lines: Mapping[int, str]

    def ends(self) -> Mapping[int, Positions]:
        """Where each batch ends."""
        return {number: positions_of(text) for number, text in self.lines.items()}

    def forms(self) -> set[Form]:
        """The forms of its lines."""
        return {form_of(text) for text in self.lines.values()}

    def topics(self) -> set[str]:
        """The topics of all batches."""
        return {partition.topic for end in self.ends().values() for partition in end}

    def begin(self, initials: Mapping[str, Positions]) -> Positions | None:
        """Where the query began, by the connector's initial files; None if no file fits, or several that differ."""
        first = self.ends()[min(self.lines)]
        fitting = [each for key, each in initials.items() if key == self.key and _fits(each, first)]
        fitting = fitting or [each for each in initials.values() if each and _fits(each, first)]
        return fitting[0] if fitting and all(each == fitting[0] for each in fitting) else None


def sources_of(
    batches: Sequence[Batch], initials: Mapping[str, Positions], wanted: Form, named: Collection[str]
) -> tuple[list[Source], list[str]]:
    """(the sources to convert into the form ``wanted``, the keys of the others).

    ``named`` are the keys of sources that are Kafka's according to the user. Raises ConfigError if a source only looks
    like the connector's, because rewriting another source's offsets would break its query.
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
    """Raise ConfigError if only some of its lines are Kafka's: one is damaged, and half a query would be converted."""
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


# Converts one source's lines in all batches from one form into the other.
def lines_of(
    source: Source, wanted: Form, oldest: int, initials: Mapping[str, Positions], commits: Collection[int]
) -> dict[int, str]:
    """The line of each batch in the form ``wanted``; those that already have it stay as they are.

    ``oldest`` is the oldest batch of the log; Spark deletes old ones. Raises ConfigError if the start of an uncompleted
    batch is unknown.
    """
    before = source.begin(initials) if oldest == 0 else None
    ends = source.ends()
    lines: dict[int, str] = {}
    for number, end in sorted(ends.items()):
        text = source.lines[number]
        if form_of(text) is not wanted:
            if wanted is Form.OURS and before is None and number not in commits:
                raise _begin_unknown(source, number)
            # Spark uses only the end of a completed batch.
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


# Rewrites the offsets of a checkpoint from one form into the other. It may be killed at any moment.
#
# Each file shows its own form, and a batch can be converted with only the one before it, in either form. So a
# conversion that was killed midway is completed by running it again, or undone by converting back. In addition, before
# anything is replaced:
#
# 1. the files that will be replaced are copied to ``originals/<form>/<batch>``;
# 2. the numbers of those batches go to ``originals/unfinished``; this file is deleted last.
#
# If a file system cannot replace a file in one step and was interrupted, a missing or damaged batch is restored from
# its copy. Commits, state, ``metadata`` and the other sources' files stay as they are; so do the connector's files in
# ``sources``, which only it reads and the way back needs.
_UNFINISHED = "originals/unfinished"


class Conversion(Struct, frozen=True):
    """The result of a conversion, or of a dry run. Sources are keys: indexes in the query (0, 1, …) or names."""

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


class Plan(Struct, frozen=True):
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
    """Write the plan. Raises UsageError if something else has written meanwhile."""
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
        return {}  # it was killed while writing this file: nothing had been replaced
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
    """Whether a file is whole: it has the same content as its copy, in either form."""
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
    """The starts of the connector's sources, by the names of its files."""
    contents = {key: files.read(f"sources/{key}/0") for key in files.folders("sources")}
    found = {key: initial_of(content) for key, content in contents.items() if content is not None}
    return {key: positions for key, positions in found.items() if positions is not None}


def _by_source(initials: Mapping[str, Positions], keys: Collection[str]) -> Mapping[str, Positions]:
    """The same by source; by names that no source has if the files' numbers cannot be trusted.

    A source that a query uses twice has two lines but one file, so all later files have smaller numbers than their
    lines, and the last source has no file.
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


# The public function, for the command line and notebooks.
_QUIET_S = 10.0
"""If the offset log was written less than this many seconds ago, the query counts as running. Nothing else shows it."""


def convert_checkpoint(
    checkpoint: str | Path,
    *,
    back: bool = False,
    dry_run: bool = False,
    stopped: bool = False,
    sources: Collection[str] = (),
    spark: SparkSession | None = None,
) -> Conversion:
    """Convert a checkpoint of Spark's own Kafka connector to ours, in place; with ``back``, the other way.

    The query must be stopped. It then continues with the other source at the same place, with its state, its file sinks
    and its batch numbers. Files that are replaced are first copied to ``originals`` in the checkpoint. If the
    conversion is killed midway, run it again, in either direction.

    ``checkpoint`` is a folder of this machine, or an address of any file system that ``spark``'s Hadoop knows.
    ``dry_run`` changes nothing. ``stopped`` asserts that the query is stopped even if its log was written a moment ago.
    ``sources`` are the sources (0, 1, …, or their names) that belong to the connector although its file for them is
    missing. Raises UsageError and ConfigError, which say why nothing was done.

    >>> convert_checkpoint("/data/checkpoints/orders").converted  # doctest: +SKIP
    (12, 13, 14)
    """
    files = _files(str(checkpoint), spark)
    planned = plan(files, Form.CONNECTOR if back else Form.OURS, sources)
    if dry_run or not planned.contents:
        if not dry_run:
            carry_out(files, planned)
        return planned.result
    _check_not_running(files, spark)
    age_s = time.time() - planned.newest_s
    if age_s < _QUIET_S and not stopped:
        raise UsageError(
            f"a batch was planned or committed {max(0.0, age_s):.0f} s ago: the query seems to be running",
            hint=f"Stop it; then wait {_QUIET_S:.0f} s, or say that it is stopped (--stopped)",
        )
    carry_out(files, planned)
    return planned.result


def is_local(checkpoint: str) -> bool:
    """Whether it is a folder of this machine, by its address; a path without a scheme is one."""
    scheme, colon, _ = checkpoint.partition(":/")
    return not colon or scheme == "file" or "/" in scheme


def _files(checkpoint: str, spark: SparkSession | None) -> Files:
    if is_local(checkpoint):
        root = Path(
            "/" + checkpoint.removeprefix("file:").lstrip("/") if checkpoint.startswith("file:") else checkpoint
        )
        if not root.is_dir():
            raise UsageError(
                f"no folder {root} on this machine", hint="A checkpoint elsewhere is named with its scheme: hdfs://…"
            )
        return LocalFiles(root)
    if spark is None:
        raise UsageError(f"{checkpoint} can be reached only through a Spark session", hint="Give spark=")
    from penstock.spark._checkpoint_hadoop import HadoopFiles

    return HadoopFiles(spark, checkpoint)


def _check_not_running(files: Files, spark: SparkSession | None) -> None:
    """Raises UsageError if the query is running, as far as this process knows."""
    known = spark or _session_of_this_process()
    metadata = (files.read("metadata") or b"").decode(errors="replace")
    for query in known.streams.active if known is not None else ():
        if query.id in metadata:
            raise UsageError(f"the query {query.name or query.id} is running in this session", hint="Stop it first")


def _session_of_this_process() -> Any:
    loaded = sys.modules.get("pyspark.sql")
    return None if loaded is None else loaded.SparkSession.getActiveSession()
