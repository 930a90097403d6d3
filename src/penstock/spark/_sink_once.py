"""Exactly once: tasks and the driver make each row of a batch visible once, even if processes die in between.

How it works. Each task writes its rows in one transaction and leaves that *prepared*: stored, but not visible. When all
tasks are done, the driver writes a *marker* that names those transactions (the decision), commits each of them, and
writes the marker again as done. Spark logs the batch as committed only after that. Otherwise it runs the batch again,
with the same query id and batch number.

The rules.

1. A transaction is committed only if a durable marker names it.
2. A query's markers have one writer at a time: the driver writes them with the query's own transactional id. So an old
   driver that still runs after its successor has started is fenced and cannot decide anything.
3. A marker names one transaction for each task. It is replaced by another one only when it is known to be aborted for
   good, and only by one with the same rows.

What happens if one of them dies.

- A task, or its executor: its transaction is open, and no marker names it. The next attempt has the same transactional
  id and takes it over, which aborts the open transaction.
- The driver before the decision: transactions are prepared, and no marker names them. As above; the log's timeout
  aborts those of tasks that no longer exist.
- The driver between decision and done: a marker names them all. Each task commits its own transaction again, which is
  harmless, and writes nothing.
- The driver after done, but before Spark has logged the batch: every task skips its rows.
- The driver, for so long that the log's timeout aborts a decided transaction: only that task writes again. The driver
  accepts its rows if they are the same, else it commits nothing.

So a rerun may divide a batch into other tasks (other cores, other leaders, fewer executors), except in the last case,
which raises an error rather than showing rows twice or not at all. A speculative copy takes over the transactional id
of the attempt that it copies, which aborts that attempt; the driver then finds a decided transaction aborted, fails,
and the last case applies.

"Known to be aborted": if the transactional id of a transaction was taken over, the log answers a commit only with that
fact. The transaction was committed before that if a reader of committed records sees one of its records, the slot's
witness.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Callable, Sequence
from typing import Protocol

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from penstock.errors import CorruptBatch, LocalError, RemoteError, UsageError
from penstock.model import LogRange, PreparedTransaction

__all__ = [
    "DecidedAborted",
    "Marker",
    "Place",
    "ReplayDiffers",
    "Report",
    "Slot",
    "TransactionalLog",
    "abort",
    "commit",
    "run_task",
]

# The marker topic stores, for each query, the last batch that was decided, and its transactions.
#
# One compacted topic for all queries, partition 0; the key is the query, the value is JSON, version 1.
# ``_sink_transactions`` reads and writes it.
VERSION = 1


class Slot(Struct, frozen=True):
    """The rows of one task of a batch, in one transaction that is prepared, and perhaps committed.

    ``task`` is Spark's partition number. ``rows`` and ``fingerprint`` show whether another attempt wrote the same rows.
    ``witness`` is one of the records: a reader of committed records sees it if, and only if, the transaction was
    committed; None if there are no rows.
    """

    task: int
    prepared: PreparedTransaction
    rows: int
    fingerprint: str
    witness: LogRange | None = None

    def same_rows_as(self, other: Slot) -> bool:
        """Whether both stand for the same rows of the same task, in any order."""
        return (self.task, self.rows, self.fingerprint) == (other.task, other.rows, other.fingerprint)


class Marker(Struct, frozen=True):
    """The transactions of batch ``batch`` of ``query``; they must be committed, or (``done``) all of them are."""

    query: str
    batch: int
    slots: tuple[Slot, ...]
    done: bool = False

    def finished(self) -> Marker:
        """The marker after all commits: only the number of tasks still matters, not what each one wrote."""
        return replace(self, done=True, slots=tuple(replace(slot, witness=None) for slot in self.slots))

    def slot(self, task: int) -> Slot | None:
        """The slot of that task; None if there was no such task."""
        return next((slot for slot in self.slots if slot.task == task), None)

    def to_bytes(self) -> bytes:
        """The marker as the topic stores it."""
        tree = {"v": VERSION, **to_builtins(self)}
        for slot in tree["slots"]:
            if slot["witness"] is not None:
                del slot["witness"]["topic_id"]  # not in a marker's format, which older versions read
        return json.dumps(tree, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> Marker:
        """The inverse of ``to_bytes``. Raises CorruptBatch for anything else, because the state is then unknown."""
        try:
            tree = json.loads(stored)
            version = tree.pop("v")
            if version != VERSION:
                raise ValueError(f"it is of version {version!r}, this penstock reads version {VERSION}")
            slots = tuple(_slot(each) for each in tree.pop("slots"))
            made = cls(slots=slots, **tree)
            if (type(made.query), type(made.batch), type(made.done)) != (str, int, bool):
                raise TypeError(f"odd types in {made!r}")
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            raise CorruptBatch(
                f"the marker topic holds something that is not a marker: {error}",
                hint="Give penstock its own topic with the option markerTopic",
            ) from error
        return made


def _slot(tree: dict[str, object]) -> Slot:
    prepared, witness = tree.pop("prepared"), tree.pop("witness")
    if not isinstance(prepared, dict) or not (witness is None or isinstance(witness, dict)):
        raise TypeError("a slot has no transaction")
    return Slot(
        prepared=PreparedTransaction(**prepared),
        witness=None if witness is None else LogRange(**witness),
        **tree,  # type: ignore[arg-type]
    )


class ReplayDiffers(LocalError):
    """A partly stored batch was rerun with other rows in its tasks; nothing of the rerun was committed."""


class DecidedAborted(RemoteError):
    """The log aborted a transaction between the driver's decision and its commit. Running the batch again fixes it."""


class Place(Struct, frozen=True):
    """A task of a batch of a query; the same for every attempt.

    ``skip_older``: a batch older than the last one is already done, and not an error (a write with a version).
    ``unnamed``: the batch is never rerun (a write without a name), so there is no marker; the rows of a retried task
    are still visible only once.
    """

    query: str
    batch: int
    task: int
    skip_older: bool = False
    unnamed: bool = False


class Report(Struct, frozen=True):
    """A task's message to the driver: the slot it has prepared, None if an earlier run has stored its rows."""

    place: Place
    slot: Slot | None


class TransactionalLog(Protocol):
    """The operations of the log that tasks and drivers use."""

    def marker(self, query: str) -> Marker | None:
        """The last marker that was written before this call."""
        ...

    def complete(self, slot: Slot, *, commit: bool) -> bool:
        """Commit or abort. True if it ended that way, now or before; False if it ended the other way for good."""
        ...

    def own(self, query: str) -> None:
        """Fence all other drivers of this query."""
        ...

    def decide(self, marker: Marker) -> None:
        """Write a marker durably. Raises FencedError if another driver has called ``own`` since."""
        ...

    def take_over(self, query: str, task: int) -> None:
        """Abort the transaction that a task which no longer exists may have left open."""
        ...


class _Standing(enum.Enum):
    NEW = "nothing of this batch is decided"
    DECIDED = "its transactions are named"
    DONE = "all of them are committed"


def run_task(log: TransactionalLog, place: Place, write: Callable[[], Slot]) -> Report:
    """Write the task's rows with ``write``, which leaves them prepared, unless they are already stored."""
    if place.unnamed:
        return Report(place, write())
    marker = log.marker(place.query)
    standing = _standing(marker, place)
    if standing is _Standing.DONE:
        return Report(place, None)
    if standing is _Standing.DECIDED:
        assert marker is not None
        slot = marker.slot(place.task)
        # Without a slot, the batch had fewer tasks then, and they wrote all its rows.
        if slot is None or log.complete(slot, commit=True):
            return Report(place, None)
    return Report(place, write())


def commit(log: TransactionalLog, reports: Sequence[Report]) -> None:
    """Decide and commit a batch whose tasks have all reported. May be called again after a failure.

    Raises ReplayDiffers, DecidedAborted, FencedError (another driver runs this query), and the log's errors.
    """
    if not reports:
        return
    place = reports[0].place
    if place.unnamed:
        for slot in (report.slot for report in reports):
            assert slot is not None
            _complete(log, slot, place)
        return
    log.own(place.query)
    before = log.marker(place.query)
    standing = _standing(before, place)
    if standing is _Standing.DONE:
        return
    marker = _decision(standing, before, place, reports)
    if marker != before:
        log.decide(marker)
    for slot in marker.slots:
        _complete(log, slot, place)
    if standing is _Standing.NEW and before is not None:
        # Tasks that no longer exist cannot take over the transactions that an earlier run of this query left open.
        for task in sorted({slot.task for slot in before.slots} - {slot.task for slot in marker.slots}):
            log.take_over(place.query, task)
    log.decide(marker.finished())


def _complete(log: TransactionalLog, slot: Slot, place: Place) -> None:
    if not log.complete(slot, commit=True):
        raise DecidedAborted(
            f"the log aborted the transaction of task {slot.task} of batch {place.batch} before it could be committed",
            hint="Start the query again: only that task writes again. If this happens again: raise"
            " kafka.transaction.timeout.ms above the time a batch takes, and leave spark.speculation off",
        )


def abort(log: TransactionalLog, reports: Sequence[Report | None]) -> None:
    """Abort the transactions of a batch, unless it is decided; Spark calls this after a failed commit, too.

    Reports are in task order. None is a task that failed or was stopped, perhaps midway: an open transaction of it
    would block readers of committed records until the log's timeout.
    """
    result = [report for report in reports if report is not None]
    if not result:
        return  # the query is unknown without a report
    place = result[0].place
    if not place.unnamed:
        log.own(place.query)  # after this, a decision in flight is either stored or refused
        marker = log.marker(place.query)
        if marker is not None and marker.batch >= place.batch:
            return
    for task, report in enumerate(reports):
        if report is None:
            log.take_over(place.query, task)
        elif report.slot is not None:
            log.complete(report.slot, commit=False)


def _standing(marker: Marker | None, place: Place) -> _Standing:
    if marker is None or marker.batch < place.batch:
        if marker is not None and not marker.done:
            raise UsageError(
                f"batch {place.batch} of query {place.query} begins, but batch {marker.batch} was never finished",
                hint=f"Write version {marker.batch} again first"
                if place.skip_older
                else "This is not the checkpoint that the query ran with: use that one, or a new one",
            )
        return _Standing.NEW
    if marker.batch > place.batch:
        if place.skip_older:
            return _Standing.DONE
        raise UsageError(
            f"batch {place.batch} of query {place.query} runs, but batch {marker.batch} is stored already",
            hint="The checkpoint is older than what was written, perhaps a restored one: start with a new one",
        )
    return _Standing.DONE if marker.done else _Standing.DECIDED


def _decision(standing: _Standing, before: Marker | None, place: Place, reports: Sequence[Report]) -> Marker:
    written = {report.slot.task: report.slot for report in reports if report.slot is not None}
    if standing is _Standing.NEW:
        if len(written) < len(reports):
            raise UsageError(
                f"batch {place.batch} of query {place.query} was stored by another driver meanwhile",
                hint="Two queries use one checkpoint: stop one of them",
            )
        return Marker(place.query, place.batch, tuple(written[task] for task in sorted(written)))
    assert before is not None
    differing = [
        task
        for task, slot in sorted(written.items())
        if not any(slot.same_rows_as(each) for each in before.slots if each.task == task)
    ]
    if written and (differing or len(reports) != len(before.slots)):
        raise ReplayDiffers(
            f"batch {place.batch} of query {place.query} is partly stored, by {len(before.slots)} tasks; now"
            f" {len(reports)} tasks run it, and {_tasks(differing)} other rows than before",
            hint="Run it once with as many cores and executors as then; df.repartition(N, 'key') before writing makes"
            " tasks independent of them, and values must not depend on time or chance",
        )
    return Marker(before.query, before.batch, tuple(written.get(slot.task, slot) for slot in before.slots))


def _tasks(numbers: Sequence[int]) -> str:
    if not numbers:
        return "not one of them has"
    return f"task {numbers[0]} has" if len(numbers) == 1 else f"tasks {', '.join(map(str, numbers))} have"
