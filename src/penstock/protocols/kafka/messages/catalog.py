"""Which API key is which pair of messages. Modules are imported when a key is first used: a node that starts, or a
client that only fetches, does not pay for forty declarations.
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
    2: ("ListOffsets", "list_offsets"),
    3: ("Metadata", "metadata"),
    8: ("OffsetCommit", "offset_commit"),
    9: ("OffsetFetch", "offset_fetch"),
    10: ("FindCoordinator", "find_coordinator"),
    11: ("JoinGroup", "join_group"),
    12: ("Heartbeat", "heartbeat"),
    13: ("LeaveGroup", "leave_group"),
    14: ("SyncGroup", "sync_group"),
    15: ("DescribeGroups", "describe_groups"),
    16: ("ListGroups", "list_groups"),
    17: ("SaslHandshake", "sasl"),
    18: ("ApiVersions", "api_versions"),
    19: ("CreateTopics", "create_topics"),
    20: ("DeleteTopics", "delete_topics"),
    21: ("DeleteRecords", "delete_records"),
    22: ("InitProducerId", "init_producer_id"),
    23: ("OffsetForLeaderEpoch", "offset_for_leader_epoch"),
    24: ("AddPartitionsToTxn", "transactions"),
    25: ("AddOffsetsToTxn", "transactions"),
    26: ("EndTxn", "transactions"),
    27: ("WriteTxnMarkers", "transactions"),
    28: ("TxnOffsetCommit", "transactions"),
    29: ("DescribeAcls", "describe_acls"),
    32: ("DescribeConfigs", "describe_configs"),
    33: ("AlterConfigs", "alter_configs"),
    34: ("AlterReplicaLogDirs", "alter_replica_log_dirs"),
    35: ("DescribeLogDirs", "describe_log_dirs"),
    36: ("SaslAuthenticate", "sasl"),
    37: ("CreatePartitions", "create_partitions"),
    42: ("DeleteGroups", "delete_groups"),
    43: ("ElectLeaders", "elect_leaders"),
    44: ("IncrementalAlterConfigs", "alter_configs"),
    45: ("AlterPartitionReassignments", "alter_partition_reassignments"),
    46: ("ListPartitionReassignments", "list_partition_reassignments"),
    47: ("OffsetDelete", "offset_delete"),
    48: ("DescribeClientQuotas", "client_quotas"),
    49: ("AlterClientQuotas", "client_quotas"),
    50: ("DescribeUserScramCredentials", "describe_user_scram_credentials"),
    55: ("DescribeQuorum", "describe_quorum"),
    60: ("DescribeCluster", "describe_cluster"),
    61: ("DescribeProducers", "describe_producers"),
    65: ("DescribeTransactions", "describe_transactions"),
    66: ("ListTransactions", "list_transactions"),
    68: ("ConsumerGroupHeartbeat", "consumer_group_heartbeat"),
    69: ("ConsumerGroupDescribe", "consumer_group_describe"),
    71: ("GetTelemetrySubscriptions", "telemetry"),
    74: ("ListConfigResources", "list_config_resources"),
    75: ("DescribeTopicPartitions", "describe_topic_partitions"),
}


class Pair(NamedTuple):
    """One API: its name and its request and response classes."""

    name: str
    request: type
    response: type


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
