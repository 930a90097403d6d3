"""Everything that happens to brokers, under a group whose members are ours and other people's: nothing is lost."""

from __future__ import annotations

import uuid

import pytest

from tests.interop.cluster.members import kafka_python, librdkafka, ours, reading
from tests.interop.cluster.traffic import check_all_there, stored, writing
from tests.interop.cluster.troubles import PARTITIONS, TROUBLES, partitions_after
from tools.peers.kafka_cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.long]

# A member that others lost sight of is waited for (session and rebalance time-outs) before its share is given away.
WITHIN_S = 120.0


@pytest.mark.parametrize("happens", TROUBLES)
def test_a_mixed_group_reads_all_that_was_acknowledged(kafka_cluster: Cluster, happens: str) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic, PARTITIONS, min_insync_replicas="1")
    with reading(kafka_cluster, topic, ours, librdkafka, kafka_python) as seen:
        with writing(kafka_cluster, topic, acks="all", metadata_max_age_ms=5_000) as written:
            written.await_more(100)
            seen.await_all(sorted(written.acknowledged), WITHIN_S)
            TROUBLES[happens](kafka_cluster, topic)
            written.await_more(200)
        seen.await_all(sorted(written.acknowledged), WITHIN_S)
        assert seen.by_member["ours"], f"the others read everything: {seen.by_member}"
    check_all_there(written.acknowledged, stored(kafka_cluster, topic, partitions_after(happens)))
