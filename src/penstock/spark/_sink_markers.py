"""What the marker topic stores for a query: the last batch that was decided, and its transactions.

One compacted topic for all queries, partition 0; the key is the query, the value is JSON, version 1. What must not live
here: reading and writing it (``_sink_transactions``), and what follows from it (``_sink_once``).
"""

from __future__ import annotations

import json
from dataclasses import asdict, replace

from penstock._dataclasses import dataclass
from penstock.errors import CorruptBatch
from penstock.model import LogRange, PreparedTransaction

__all__ = ["Marker", "Slot"]

VERSION = 1


@dataclass(frozen=True, slots=True)
class Slot:
    """What one task of a batch has written, in one transaction that is prepared, and perhaps committed.

    ``task`` is Spark's partition number. ``rows`` and ``fingerprint`` tell whether another attempt wrote the same rows.
    ``witness`` is one of the records: a reader of committed records sees it if, and only if, the transaction was
    committed; None where there are no rows.
    """

    task: int
    prepared: PreparedTransaction
    rows: int
    fingerprint: str
    witness: LogRange | None = None

    def same_rows_as(self, other: Slot) -> bool:
        """Whether both stand for the same rows of the same task, in any order."""
        return (self.task, self.rows, self.fingerprint) == (other.task, other.rows, other.fingerprint)


@dataclass(frozen=True, slots=True)
class Marker:
    """Batch ``batch`` of ``query`` consists of these transactions: they are to be committed, or (``done``) all are."""

    query: str
    batch: int
    slots: tuple[Slot, ...]
    done: bool = False

    def finished(self) -> Marker:
        """The marker once all is committed. What each task wrote no longer matters, only how many tasks there were."""
        return replace(self, done=True, slots=tuple(replace(slot, witness=None) for slot in self.slots))

    def slot(self, task: int) -> Slot | None:
        """What that task wrote; None if there was no such task."""
        return next((slot for slot in self.slots if slot.task == task), None)

    def to_bytes(self) -> bytes:
        """The marker as the topic stores it."""
        tree = {"v": VERSION, **asdict(self)}
        for slot in tree["slots"]:
            if slot["witness"] is not None:
                del slot["witness"]["topic_id"]  # not in a marker's format, which older versions read
        return json.dumps(tree, separators=(",", ":"), sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, stored: bytes) -> Marker:
        """Read what ``to_bytes`` wrote. Raises CorruptBatch for anything else: continuing would be guessing."""
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
