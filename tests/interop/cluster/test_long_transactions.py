"""Everything that happens to brokers, under who moves records from topic to topic: each arrives, and once."""

from __future__ import annotations

import uuid

import pytest

from tests.interop.cluster.movers import arrive, librdkafka, moving, ours
from tests.interop.cluster.traffic import stored, writing
from tests.interop.cluster.troubles import PARTITIONS, TROUBLES
from tools.peers.kafka_cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.long]


@pytest.mark.parametrize("happens", TROUBLES)
def test_what_is_moved_in_transactions_arrives_once(kafka_cluster: Cluster, happens: str) -> None:
    source = f"t-{uuid.uuid4().hex[:8]}"
    target = f"{source}-moved"
    kafka_cluster.create_topic(source, PARTITIONS, min_insync_replicas="1")
    kafka_cluster.create_topic(target, PARTITIONS, min_insync_replicas="1")
    with moving(kafka_cluster, source, target, ours, librdkafka) as moves:
        with writing(kafka_cluster, source, acks="all", metadata_max_age_ms=5_000) as written:
            written.await_more(100)
            arrive(kafka_cluster, target, PARTITIONS, list(written.acknowledged), moves)
            TROUBLES[happens](kafka_cluster, source)
            written.await_more(200)
        arrive(kafka_cluster, target, PARTITIONS, list(written.acknowledged), moves)
        there = stored(kafka_cluster, target, PARTITIONS, isolation_level="read_committed")
        assert there.keys() == written.acknowledged.keys(), "values were moved that nobody wrote"
        assert moves.committed["ours"], f"librdkafka moved everything: {moves.committed}"
