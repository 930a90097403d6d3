"""The columns Spark gets: those of Spark's own Kafka source, by name, as DDL. No Arrow and no Spark is imported here.

What must not live here: how a column is built (``_rows``).
"""

from __future__ import annotations

from collections.abc import Sequence

__all__ = ["DEFAULT", "HEADERS", "KNOWN", "ddl"]

KNOWN = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key string, value binary>>",
}
"""Spark's type of every column that can be asked for (Structured Streaming + Kafka Integration Guide)."""

HEADERS = "headers"
DEFAULT = tuple(name for name in KNOWN if name != HEADERS)


def ddl(columns: Sequence[str]) -> str:
    """The schema as DDL text: ``key binary, value binary, …``; every field may be null."""
    return ", ".join(f"{name} {KNOWN[name]}" for name in columns)
