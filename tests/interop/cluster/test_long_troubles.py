"""Everything that happens to brokers, one thing after the other, under a producer: minutes, so only with --long."""

from __future__ import annotations

import uuid

import pytest

from tests.interop.cluster.traffic import check_all_there, stored, writing
from tests.interop.cluster.troubles import PARTITIONS, TROUBLES, partitions_after
from tools.peers.kafka_cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.long]


@pytest.mark.parametrize("happens", TROUBLES)
def test_what_is_acknowledged_is_there_once(kafka_cluster: Cluster, happens: str) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, PARTITIONS, min_insync_replicas="1")
    with writing(kafka_cluster, topic, acks="all") as written:
        written.await_more(100)
        TROUBLES[happens](kafka_cluster, topic)
        written.await_more(200)
    check_all_there(written.acknowledged, stored(kafka_cluster, topic, partitions_after(happens)))
