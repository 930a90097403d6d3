"""``clean-shutdown.json``: the state of each log when the store closed, so that the next start need not scan.

The file names the epoch that it closed. A start moves to a new epoch before it writes, so a file left over after a
crash is ignored. What must not live here: comparing the logs' files with it (`_recovery`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

from penstock._dataclasses import dataclass
from penstock.store._checksummed import with_checksum, without_checksum
from penstock.store._directory import Directory
from penstock.store._log_state import LogState

__all__ = ["CleanLog", "load_clean", "save_clean"]

_FILE: Final = "clean-shutdown.json"


@dataclass(frozen=True, slots=True)
class CleanLog:
    """A log at close. ``segments``: base, size, next offset, newest timestamp (ms), its offset, created (ms)."""

    start_offset: int
    segments: Sequence[Sequence[int]]
    epochs: Sequence[Sequence[int]]
    producers: Sequence[Sequence[int]]

    @classmethod
    def of(cls, state: LogState) -> CleanLog:
        rows = [
            [one.base, one.size, one.next_offset, one.newest.timestamp_ms, one.newest.offset, one.created_ms]
            for one in state.segments
        ]
        return cls(state.start_offset, rows, state.epochs.entries(), state.producers.snapshot())


def save_clean(directory: Directory, epoch: int, logs: Mapping[str, CleanLog]) -> None:
    """Write the file, durably; ``logs`` by directory name. Raises OSError."""
    facts = {"epoch": epoch, "logs": {name: asdict(log) for name, log in logs.items()}}
    directory.replace(_FILE, with_checksum(json.dumps(facts, separators=(",", ":")).encode()), durable=True)


def load_clean(directory: Directory, epoch: int) -> Mapping[str, CleanLog]:
    """Logs by directory name; empty unless ``epoch`` ended in a clean shutdown."""
    text = without_checksum(directory.load(_FILE))
    try:
        facts = json.loads(text) if text else {}
        if facts.get("epoch") != epoch:
            return {}
        return {name: CleanLog(**log) for name, log in facts["logs"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # scanning the logs is always safe
