"""Which API key is which pair of messages, and which module declares them.

A module is imported when one of its keys is first used, because declaring a message takes time: what the same clients
need is declared together, and a client that only fetches does not pay for the rest.
"""

from __future__ import annotations

import functools
import importlib
from typing import NamedTuple

from penstock.protocols.kafka.messages.declare import Api

API_VERSIONS = 18

_MODULES: dict[int, tuple[str, str]] = {
    0: ("Produce", "produce"),
    1: ("Fetch", "fetch"),
    2: ("ListOffsets", "discovery"),
    3: ("Metadata", "discovery"),
    8: ("OffsetCommit", "commits"),
    9: ("OffsetFetch", "commits"),
    10: ("FindCoordinator", "commits"),
    11: ("JoinGroup", "groups"),
    12: ("Heartbeat", "groups"),
    13: ("LeaveGroup", "groups"),
    14: ("SyncGroup", "groups"),
    15: ("DescribeGroups", "group_admin"),
    16: ("ListGroups", "group_admin"),
    17: ("SaslHandshake", "security"),
    18: ("ApiVersions", "api_versions"),
    19: ("CreateTopics", "topics"),
    20: ("DeleteTopics", "topics"),
    21: ("DeleteRecords", "topics"),
    22: ("InitProducerId", "produce"),
    23: ("OffsetForLeaderEpoch", "fetch"),
    24: ("AddPartitionsToTxn", "transactions"),
    25: ("AddOffsetsToTxn", "transactions"),
    26: ("EndTxn", "transactions"),
    27: ("WriteTxnMarkers", "transactions"),
    28: ("TxnOffsetCommit", "transactions"),
    29: ("DescribeAcls", "security"),
    32: ("DescribeConfigs", "configs"),
    33: ("AlterConfigs", "configs"),
    34: ("AlterReplicaLogDirs", "replicas"),
    35: ("DescribeLogDirs", "replicas"),
    36: ("SaslAuthenticate", "security"),
    37: ("CreatePartitions", "topics"),
    42: ("DeleteGroups", "group_admin"),
    43: ("ElectLeaders", "replicas"),
    44: ("IncrementalAlterConfigs", "configs"),
    45: ("AlterPartitionReassignments", "replicas"),
    46: ("ListPartitionReassignments", "replicas"),
    47: ("OffsetDelete", "group_admin"),
    48: ("DescribeClientQuotas", "security"),
    49: ("AlterClientQuotas", "security"),
    50: ("DescribeUserScramCredentials", "security"),
    55: ("DescribeQuorum", "cluster"),
    60: ("DescribeCluster", "cluster"),
    61: ("DescribeProducers", "transaction_admin"),
    65: ("DescribeTransactions", "transaction_admin"),
    66: ("ListTransactions", "transaction_admin"),
    68: ("ConsumerGroupHeartbeat", "consumer_groups"),
    69: ("ConsumerGroupDescribe", "consumer_groups"),
    71: ("GetTelemetrySubscriptions", "cluster"),
    74: ("ListConfigResources", "configs"),
    75: ("DescribeTopicPartitions", "cluster"),
    76: ("ShareGroupHeartbeat", "consumer_groups"),
}


class Pair(NamedTuple):
    """One API: its name and its request and response classes."""

    name: str
    request: type
    response: type


def name_of(key: int) -> str | None:
    """What an API key is called; None for one that is not declared."""
    row = _MODULES.get(key)
    return None if row is None else row[0]


def known() -> frozenset[int]:
    """All API keys that are declared."""
    return frozenset(_MODULES)


@functools.cache
def api_of(key: int) -> Pair | None:
    """The messages of an API key; None for one that is not declared."""
    if key not in _MODULES:
        return None
    name, module = _MODULES[key]
    found = importlib.import_module(f"penstock.protocols.kafka.messages.{module}")
    return Pair(name, getattr(found, f"{name}Request"), getattr(found, f"{name}Response"))


def versions(key: int) -> tuple[int, int]:
    """Lowest and highest declared version of an API key. Raises KeyError for an unknown one."""
    pair = api_of(key)
    if pair is None:
        raise KeyError(key)
    api: Api = pair.request.API  # type: ignore[attr-defined]
    return api.lowest, api.highest
