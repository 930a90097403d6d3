"""Results files, one per scenario: JSON lines, first the machine's facts, then one sample per line."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from bench.samples import Sample

__all__ = ["FOLDER", "read", "write"]

FOLDER = Path(__file__).resolve().parent / "results"


def write(file: Path, facts: Mapping[str, str], samples: Sequence[Sample]) -> None:
    """Replace the file."""
    file.parent.mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"facts": facts}), *(json.dumps(asdict(sample)) for sample in samples)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")


def read(file: Path) -> tuple[Mapping[str, str], Sequence[Sample]]:
    """(machine facts, samples)."""
    head, *lines = file.read_text(encoding="utf-8").splitlines()
    return json.loads(head)["facts"], [Sample(**json.loads(line)) for line in lines]
