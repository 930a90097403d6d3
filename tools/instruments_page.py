"""Generates the table of clients' OpenTelemetry instruments in docs/clients from the table in the code."""

from __future__ import annotations

from penstock.client.opentelemetry import INSTRUMENTS

__all__ = ["table"]


def table() -> str:
    """A row for each instrument."""
    rows = [
        f"| `{each.name}` | {each.kind.value} | `{each.unit}` | {each.about} |"
        for instruments in INSTRUMENTS.values()
        for each in instruments
    ]
    return "\n".join(["| instrument | kind | unit | what |", "|---|---|---|---|", *rows])
