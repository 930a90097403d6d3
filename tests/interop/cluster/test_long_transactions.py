"""Everything that happens to brokers, under who moves records from topic to topic: each arrives, and once."""

from __future__ import annotations

import uuid

import pytest

from tests.eventually import comes_to
from tests.interop.cluster.movers import Moves, librdkafka, moving, ours
from tests.interop.cluster.traffic import stored, writing
from tests.interop.cluster.troubles import PARTITIONS, TROUBLES
from tools.peers.kafka_cluster import Cluster

pytestmark = [pytest.mark.interop, pytest.mark.long]

# A transaction that nobody ends any more is aborted after a minute, and holds up who reads committed records till then.
WITHIN_S = 150.0


@pytest.mark.parametrize("happens", TROUBLES)
def test_what_is_moved_in_transactions_arrives_once(kafka_cluster: Cluster, happens: str) -> None:
    source = f"t-{uuid.uuid4().hex[:8]}"
    target = f"{source}-moved"
    kafka_cluster.create_topic(source, PARTITIONS, min_insync_replicas="1")
    kafka_cluster.create_topic(target, PARTITIONS, min_insync_replicas="1")
    with moving(kafka_cluster, source, target, ours, librdkafka) as moves:
        with writing(kafka_cluster, source, acks="all", metadata_max_age_ms=5_000) as written:
            written.await_more(100)
            arrives(kafka_cluster, target, list(written.acknowledged), moves)
            TROUBLES[happens](kafka_cluster, source)
            written.await_more(200)
        arrives(kafka_cluster, target, list(written.acknowledged), moves, exactly=True)
        assert moves.committed["ours"], f"librdkafka moved everything: {moves.committed}"


def arrives(cluster: Cluster, target: str, values: list[int], moves: Moves, *, exactly: bool = False) -> None:
    """``stored`` itself asserts that nothing is there twice."""

    def missing() -> int:
        assert not moves.failures, moves.failures[:3]
        there = stored(cluster, target, PARTITIONS, isolation_level="read_committed")
        if exactly:
            assert there.keys() <= set(values), "values were moved that nobody wrote"
        return sum(value not in there for value in values)

    comes_to(missing, 0, within_s=WITHIN_S)
