"""Generates the table of a node's metrics in docs/node from `penstock.snode.monitoring.FAMILIES`."""

from __future__ import annotations

from penstock.interfaces.front import BOUNDS_S
from penstock.snode.monitoring import FAMILIES

__all__ = ["buckets", "table"]


def table() -> str:
    """A row for each metric."""
    rows = [
        f"| `{each.name}` | {each.kind.value} | {', '.join(f'`{label}`' for label in each.labels)} | {each.says} |"
        for each in FAMILIES
    ]
    return "\n".join(["| metric | kind | labels | what |", "|---|---|---|---|", *rows])


def buckets() -> str:
    """The upper ends of a histogram's buckets."""
    return "Buckets of `penstock_request_seconds` end at " + ", ".join(f"{bound:g}" for bound in BOUNDS_S) + " s."
