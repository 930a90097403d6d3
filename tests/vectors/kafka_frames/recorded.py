"""The recorded messages of tests/data/kafka, one by one. Reads files only; what they mean is the tests' business."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).parents[2] / "data" / "kafka"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One whole message with its 4-byte size; an answer carries the key and version of what it answers."""

    where: str
    is_request: bool
    api_key: int
    version: int
    wire: bytes

    @property
    def body(self) -> memoryview:
        """Header and message, without the size."""
        return memoryview(self.wire)[4:]


@cache
def files() -> tuple[str, ...]:
    """Names of the recordings."""
    return tuple(sorted(file.stem for file in DATA.glob("*.jsonl")))


@cache
def recorded(name: str) -> tuple[Recorded, ...]:
    """All messages of one recording, in the order in which they were seen."""
    found = []
    for number, line in enumerate((DATA / f"{name}.jsonl").read_text(encoding="ascii").splitlines(), 1):
        row = json.loads(line)
        where = f"{name}.jsonl:{number}"
        found.append(Recorded(where, row["dir"] == "c2s", row["api"], row["ver"], bytes.fromhex(row["hex"])))
    return tuple(found)
