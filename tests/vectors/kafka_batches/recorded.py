"""The recorded batches: bytes, and what Kafka's own classes read from them."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[2] / "data" / "kafka" / "batches"


@dataclass(frozen=True)
class Recorded:
    """``batches`` are the headers and records that kafka-clients read from ``data``."""

    name: str
    data: bytes
    batches: list[dict[str, Any]]

    def records(self) -> list[tuple[dict[str, Any], dict[str, Any]]]:
        """Every record a consumer sees, with its batch."""
        return [(record, batch) for batch in self.batches if not batch.get("control") for record in batch["records"]]


def recordings() -> list[Recorded]:
    return [
        Recorded(file.stem, file.with_suffix(".bin").read_bytes(), json.loads(file.read_text()))
        for file in sorted(FOLDER.glob("*.json"))
    ]


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
