"""The recorded frames of tests/data/tubemq, one by one. Reads files only; what they mean is the tests' business."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path

DATA = Path(__file__).parents[2] / "data" / "tubemq"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One whole frame."""

    where: str
    connection: int
    is_request: bool
    wire: bytes


@cache
def files() -> tuple[str, ...]:
    """Names of the recordings."""
    return tuple(sorted(file.stem for file in DATA.glob("*.jsonl")))


@cache
def recorded(name: str) -> tuple[Recorded, ...]:
    """All frames of one recording, in the order in which they were seen."""
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="ascii").splitlines()]
    return tuple(
        Recorded(f"{name}.jsonl:{number}", row["conn"], row["dir"] == "c2s", bytes.fromhex(row["hex"]))
        for number, row in enumerate(rows, 1)
        if "hex" in row
    )
