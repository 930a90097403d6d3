"""The columns Spark gets: those of Spark's own Kafka source, by name, and node. Imports neither Arrow nor Spark.

What must not live here: how a column is built (``penstock.columnar``).
"""

from __future__ import annotations

__all__ = ["DEFAULT", "HEADERS", "KNOWN", "NODE", "default_columns"]

KNOWN = {
    "key": "binary",
    "value": "binary",
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "timestampType": "int",
    "headers": "array<struct<key string, value binary>>",
    "node": "string",
}
"""Spark's type of every column that can be read (Structured Streaming + Kafka Integration Guide; node is ours)."""

HEADERS = "headers"
NODE = "node"
"""The broker of the partition, null where partitions do not belong to brokers."""

DEFAULT = tuple(name for name in KNOWN if name not in {HEADERS, NODE})


def default_columns(*, named_nodes: bool) -> tuple[str, ...]:
    """The columns of a read that names none: where partitions belong to brokers, rows are not told apart without node.

    >>> default_columns(named_nodes=True)[-2:]
    ('timestampType', 'node')
    """
    return (*DEFAULT, NODE) if named_nodes else DEFAULT
