"""Bugs to plant in the store: those that it had, and others of their kind. What must not live here: finding them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from penstock.store import partition_folder, store
from penstock.store.errors import StoreDamaged
from penstock.store.partition_folder import Durability, Flush, PartitionFolder
from penstock.store.recovery import Recoverer
from penstock.store.segment import Segment

__all__ = ["PLANTS", "Plant"]

Target = tuple[object, str, Any]


class _Unsynced:
    """A directory whose `sync` does nothing once ``after`` was removed; at once without a name."""

    def __init__(self, directory: Any, after: str | None) -> None:
        self._directory = directory
        self._after = after

    def remove(self, name: str) -> None:
        self._directory.remove(name)
        if name == self._after:
            self._after = None

    def sync(self) -> None:
        if self._after is not None:
            self._directory.sync()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._directory, name)


def _refused_contradictions() -> Target:
    real = Recoverer._cut

    def cut(self: Recoverer, *given: Any, torn: bool) -> None:
        if given[4].startswith(("a batch at offset", "offset ")):
            raise StoreDamaged(given[4], file=given[2].path, position=given[2].size)
        real(self, *given, torn=torn)

    return Recoverer, "_cut", cut


def _forgotten_names() -> Target:
    real = Durability.__init__

    def init(self: Durability, *given: Any) -> None:
        real(self, *given)
        self._names = 0

    return Durability, "__init__", init


def _early_names() -> Target:
    real = Durability.prepare

    def prepare(self: Durability, *given: Any) -> Flush | None:
        flush = real(self, *given)
        self._synced_names = self._names
        return flush

    return Durability, "prepare", prepare


def _plan_left() -> Target:
    real = partition_folder.finish_swap
    return partition_folder, "finish_swap", lambda directory: real(_Unsynced(directory, "compaction.json"))  # type: ignore[arg-type]


def _unsynced_deletion() -> Target:
    real = store.delete_folders
    return store, "delete_folders", lambda directory, topic: real(_Unsynced(directory, None), topic)  # type: ignore[arg-type]


def _point_first() -> Target:
    real = Flush.run

    def run(self: Flush) -> None:
        self._work = list(reversed(self._work))
        real(self)

    return Flush, "run", run


def _nothing_synced(self: Flush) -> None:
    self._synced = True


def _start_not_durable(self: PartitionFolder, offset: int) -> None:
    from penstock.store.partition_folder import with_checksum

    self.directory.replace("log-start-offset", with_checksum(str(offset).encode()), durable=False)


@dataclass(frozen=True, slots=True)
class Plant:
    """``make``: what is put where instead of what, for ``patch.object``.

    ``seed``: the first to try; None where few seeds find it, so that a test of its own looks for it.
    """

    make: Callable[[], Target]
    seed: int | None


PLANTS = {
    "a compaction leaves its old segments waiting for a sync": Plant(
        lambda: (Durability, "replaced", lambda *_: None), 26
    ),
    "a cut is not synced": Plant(lambda: (Segment, "cut", Segment.truncate), None),
    "a torn head is called damage": Plant(_refused_contradictions, 73),
    "names from before a kill are not synced": Plant(_forgotten_names, None),
    "names are taken for synced when a flush is prepared": Plant(_early_names, 608),
    "a plan comes back while the next compaction writes": Plant(_plan_left, None),
    "deleted topics are not synced": Plant(_unsynced_deletion, 143),
    "the recovery point is saved before the sync": Plant(_point_first, 37),
    "a flush syncs nothing": Plant(lambda: (Flush, "run", _nothing_synced), 0),
    "a start offset is not synced": Plant(lambda: (PartitionFolder, "save_start", _start_not_durable), 2),
    "deletions overtake new segments": Plant(lambda: (Durability, "dropping", Durability._forget), 170),
}
