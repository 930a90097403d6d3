"""The columns Spark gets: those of Spark's own Kafka source, by name. Imports neither Arrow nor Spark.

What must not live here: how a column is built (``penstock.columnar``).
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
"""Spark's type of every column that can be read (Structured Streaming + Kafka Integration Guide)."""

HEADERS = "headers"
DEFAULT = tuple(name for name in KNOWN if name != HEADERS)
