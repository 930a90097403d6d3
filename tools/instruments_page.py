"""The table of clients' OpenTelemetry instruments in docs/clients, from the table that they are made by.

What must not live here: what an instrument says.
"""

from __future__ import annotations

from penstock.client.opentelemetry import INSTRUMENTS

__all__ = ["table"]


def table() -> str:
    """Every instrument."""
    rows = [
        f"| `{each.name}` | {each.kind.value} | `{each.unit}` | {each.about} |"
        for instruments in INSTRUMENTS.values()
        for each in instruments
    ]
    return "\n".join(["| instrument | kind | unit | what |", "|---|---|---|---|", *rows])
