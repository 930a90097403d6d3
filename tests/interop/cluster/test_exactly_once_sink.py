"""The exactly-once sink's own topic, of which it needs three replicas, while a broker is away."""

from __future__ import annotations

import threading
import uuid

import pytest

from penstock.errors import ServerError
from penstock.interfaces import NewTopic
from penstock.spark._sink_once import Marker
from penstock.spark._sink_options import parse_sink_options
from penstock.spark._sink_transactions import Transactions
from tools.peers.kafka_cluster import Cluster

pytestmark = pytest.mark.interop


def test_the_first_batch_waits_until_its_marker_topic_can_be_made(kafka_cluster: Cluster) -> None:
    topic = f"t-{uuid.uuid4().hex[:8]}"
    kafka_cluster.create_topic(topic)
    given = {"path": kafka_cluster.address, "topic": topic, "deliveryGuarantee": "exactly-once"}
    with Transactions(parse_sink_options({**given, "markerTopic": f"markers-{topic}"})) as log:
        log.own("query")
        kafka_cluster.kill(3)
        kafka_cluster.await_in_sync(topic, 0, [1, 2])
        kafka_cluster.unregister(3)
        with pytest.raises(ServerError, match="INVALID_REPLICATION_FACTOR"):
            log._admin_client.create_topics([NewTopic(f"other-{topic}", partitions=1)])
        back = threading.Timer(2.0, kafka_cluster.start, [3])
        back.start()
        marker = Marker("query", 0, ())
        try:
            log.decide(marker)
        finally:
            back.join()
        assert log.marker("query") == marker
    kafka_cluster.await_in_sync(topic)
