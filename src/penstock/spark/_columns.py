"""The columns Spark gets: those of Spark's own Kafka source, by name. No Arrow and no Spark is imported here.

What must not live here: how a column is built (``_rows``).
"""

from __future__ import annotations

__all__ = ["DEFAULT", "HEADERS", "KNOWN"]

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
