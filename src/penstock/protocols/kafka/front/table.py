"""Which API keys the front serves, in which versions, by whom, and what the log behind must be able to do for it.

ApiVersions advertises exactly these rows, but for those that need what the log lacks: clients then say themselves that
the broker cannot do it. Ranges begin as low as they can be served, because librdkafka before 2.12
asks for an overlap with old versions before it turns features on. SASL (17, 36) is not served, so it is not here and
clients do not try it.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

from penstock.protocols.kafka.front.call import Handler, Line, Shared
from penstock.seams.abilities import Abilities
from penstock.seams.framing import Pieces

__all__ = ["FEATURES", "TABLE", "Row", "Single", "features", "handler", "offered", "single"]


class Row(NamedTuple):
    """``handler`` is "module.function" below `apis`; it is imported with its first request.

    ``single``: likewise who is asked first, because most requests of this key are alike: see `Single`.
    """

    handler: str
    lowest: int
    highest: int
    needs: frozenset[str] = frozenset()
    """`Abilities` without which nobody is told of it."""
    single: str = ""


Single = Callable[[Shared, Line, memoryview], Awaitable[Pieces | None]]
"""Answers a request from its bytes, or leaves it to the handler by None; then nothing was done of it."""


_TOPICS, _OPTIONS, _SIZES, _DELETION, _SEQUENCES, _NUMBERED, _EPOCHS, _TRANSACTIONS = (
    frozenset({each})
    for each in ("topics", "options", "sizes", "deletion", "sequences", "numbered", "epochs", "transactions")
)
TABLE: Final[Mapping[int, Row]] = {
    # Versions 0-2 carry message formats that nobody may produce any more; they are answered with an error (KAFKA-18659:
    # librdkafka turns its producer off where they are not advertised).
    0: Row("produce.produce", 0, 13, single="single.produce"),
    1: Row("fetch.fetch", 4, 18, single="quick_fetch.fetch"),
    2: Row("list_offsets.list_offsets", 1, 11),
    3: Row("metadata.metadata", 0, 13),
    8: Row("offsets.commit", 2, 10, single="quick_commit.commit"),
    9: Row("offset_fetch.fetch", 1, 10),
    10: Row("group_admin.find_coordinator", 0, 6),
    11: Row("membership.join_group", 0, 9),
    12: Row("membership.heartbeat", 0, 4, single="quick_heartbeat.heartbeat"),
    13: Row("membership.leave_group", 0, 5),
    14: Row("membership.sync_group", 0, 5),
    15: Row("group_admin.describe_groups", 0, 6),
    16: Row("group_admin.list_groups", 0, 5),
    18: Row("api_versions.api_versions", 0, 5),
    19: Row("topics.create_topics", 0, 7, _TOPICS),
    20: Row("topics.delete_topics", 0, 6, _TOPICS),
    21: Row("topics.delete_records", 0, 2, _DELETION),
    22: Row("init_producer_id.init_producer_id", 0, 5, _NUMBERED),
    23: Row("cluster.offset_for_leader_epoch", 0, 4, _EPOCHS),
    24: Row("transactions.add_partitions", 0, 3, _TRANSACTIONS),
    25: Row("transactions.add_offsets", 0, 4, _TRANSACTIONS),
    26: Row("transactions.end", 0, 5, _TRANSACTIONS),
    27: Row("transaction_admin.write_markers", 1, 2, _TRANSACTIONS),
    28: Row("transactions.commit_offsets", 0, 6, _TRANSACTIONS),
    29: Row("quotas.describe_acls", 1, 3),
    32: Row("configs.describe_configs", 0, 4),
    33: Row("configs.alter_configs", 0, 2, _OPTIONS),
    34: Row("log_dirs.alter_replica_log_dirs", 1, 2, _SIZES),
    35: Row("log_dirs.describe_log_dirs", 1, 5, _SIZES),
    37: Row("topics.create_partitions", 0, 3, _TOPICS),
    42: Row("group_admin.delete_groups", 0, 3),
    43: Row("replicas.elect_leaders", 0, 2),
    44: Row("configs.incremental_alter_configs", 0, 1, _OPTIONS),
    45: Row("replicas.alter_reassignments", 0, 1),
    46: Row("replicas.list_reassignments", 0, 0),
    47: Row("offsets.delete", 0, 0),
    48: Row("quotas.describe_client_quotas", 0, 1),
    49: Row("quotas.alter_client_quotas", 0, 1),
    50: Row("quotas.describe_scram_credentials", 0, 0),
    55: Row("quorum.describe_quorum", 0, 2),
    60: Row("cluster.describe_cluster", 0, 2),
    61: Row("transaction_admin.describe_producers", 0, 0, _SEQUENCES),
    65: Row("transaction_admin.describe", 0, 0, _TRANSACTIONS),
    66: Row("transaction_admin.list_all", 0, 2, _TRANSACTIONS),
    68: Row("consumer_groups.heartbeat", 0, 1),
    69: Row("consumer_groups.describe", 0, 1),
    74: Row("configs.list_config_resources", 0, 1),
    75: Row("cluster.describe_topic_partitions", 0, 0),
    76: Row("consumer_groups.share_heartbeat", 1, 1),
}


FEATURES: Final[Mapping[str, int]] = {"group.version": 1, "transaction.version": 2}
"""Features by the level that is on (KIP-584). Transactions of the second version (KIP-890) begin with Produce v12 and
TxnOffsetCommit v5; clients that do not know them, or are told less, use the first. Groups of level 1 are those of
KIP-848 beside the older ones. What is not served has no level."""


def offered(abilities: Abilities) -> Mapping[int, Row]:
    """The rows for which the log behind can do what they need."""
    return {key: row for key, row in TABLE.items() if not abilities.lacks(row.needs)}


def features(abilities: Abilities) -> Mapping[str, int]:
    """The features that are on over such a log."""
    return {name: level for name, level in FEATURES.items() if abilities.transactions or name != "transaction.version"}


@functools.cache
def handler(key: int) -> Handler:
    """The handler of a key in the table."""
    found: Handler = _function(TABLE[key].handler)
    return found


@functools.cache
def single(key: int) -> Single | None:
    """Who is asked before the handler of a key, if anybody is."""
    row = TABLE.get(key)
    found: Single | None = _function(row.single) if row is not None and row.single else None
    return found


def _function(name: str) -> Any:
    module, function = name.split(".")
    return getattr(importlib.import_module(f"penstock.protocols.kafka.front.apis.{module}"), function)
