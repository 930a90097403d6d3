"""Members at a real TubeMQ that checks signatures, that remembers a killed member, whose partitions share stores."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Mapping

import pytest

from penstock.client import Consumer, Producer
from penstock.config import OptionValue
from penstock.errors import ServerError
from penstock.model import Partition
from tests.interop.peers.tubemq_fixtures import NewCluster, NewTopic
from tests.interop.tubemq.members import PATIENCE_MS, Told, fresh, send
from tools.peers import tubemq

pytestmark = pytest.mark.interop

SIGNS: Mapping[str, OptionValue] = {"user": "me", "password": "secret"}
ONE_OF_ONE: Mapping[str, OptionValue] = {"client_balance": True, "source_count": 1, "node_id": 0}


def test_members_and_producers_that_sign_stay_where_all_is_checked(tubemq_own: NewCluster) -> None:
    checks = {"startProduceAuthenticate": "true", "startConsumeAuthenticate": "true"}
    cluster = tubemq_own(master_settings=checks)
    cluster.create_topics("signed", partitions=2)
    with pytest.raises(ServerError) as refused, Producer(cluster.url) as producer:
        producer.send("signed", b"x").result(10)
    assert refused.value.code == 415
    listeners = [Told(), Told()]
    with (
        Producer(cluster.url, **SIGNS) as producer,
        Consumer(cluster.url, group="gs", **PATIENCE_MS, **SIGNS) as served,
        Consumer(cluster.url, group="gb", **PATIENCE_MS, **SIGNS, **ONE_OF_ONE) as balanced,
    ):
        read = [0, 0]
        consumers = [served, balanced]
        for consumer, listener in zip(consumers, listeners, strict=True):
            consumer.subscribe(["signed"], listener=listener)
            assert consumer.partitions_ready(30)
        deadline = time.monotonic() + 12  # a dozen heartbeats of each
        sent = 0
        while time.monotonic() < deadline or read != [sent, sent]:
            assert time.monotonic() < deadline + 20
            if time.monotonic() < deadline:
                producer.send("signed", b"%d" % sent).result(10)
                sent += 1
            for place, consumer in enumerate(consumers):
                batch = consumer.poll(0.2)
                read[place] += len(batch)
                consumer.commit(batch)
    assert read == [sent, sent]
    for listener in listeners:
        assert [what for what, _ in listener.heard if what == "lost"] == []


OCCUPIED = 410

KILLED = """
import sys
import penstock
consumer = penstock.Consumer(sys.argv[1], group=sys.argv[2], client_balance=True, source_count=1, node_id=0)
consumer.assign(consumer.partitions_for(sys.argv[3]))
while True:
    batch = consumer.poll(1)
    consumer.commit(batch)
    print(len(batch), flush=True)
"""


@pytest.mark.parametrize("consumer_id", ["", "member-0"])
def test_a_member_that_was_killed_is_started_again(
    consumer_id: str, tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic
) -> None:
    topic, group = tubemq_topic(partitions=2), fresh("killed")
    sent = send(tubemq_peer.address, topic, 10)
    url = f"{tubemq_peer.url}?consumer_id={consumer_id}" if consumer_id else tubemq_peer.url
    with subprocess.Popen(
        [sys.executable, "-c", KILLED, url, group, topic], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        read = 0
        while read < 10:
            read += int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
    more = send(tubemq_peer.address, topic, 10, len(sent))
    begun = time.monotonic()
    found: list[bytes | None] = []
    with Consumer(url, group=group, **ONE_OF_ONE) as consumer:
        consumer.assign(consumer.partitions_for(topic))
        while len(found) < 10 and time.monotonic() < begun + 60:
            try:
                batch = consumer.poll(1)
            except ServerError as error:
                # A broker may keep the killed member for longer than the master does. The application polls again.
                if error.code != OCCUPIED:
                    raise
                continue
            found += batch.value.to_pylist()
            consumer.commit(batch)
    took = time.monotonic() - begun
    assert sorted(found) == sorted(more)
    assert took < 10 if consumer_id else took > 10


def test_offsets_that_an_application_keeps_read_nothing_twice_where_partitions_share_a_store(
    tubemq_peer: tubemq.Cluster, tubemq_topic: NewTopic
) -> None:
    topic, group = tubemq_topic(partitions=3), fresh("kept")
    sent = send(tubemq_peer.address, topic, 3_000)
    kept: dict[Partition, int] = {}
    found: list[bytes | None] = []
    while len(found) < 3_000:
        with Consumer(tubemq_peer.url, group=group, **ONE_OF_ONE, **PATIENCE_MS) as consumer:
            partitions = consumer.partitions_for(topic)
            consumer.assign({partition: kept.get(partition, 0) for partition in partitions})
            until = len(found) + 1_000  # then the next consumer goes on
            while len(found) < min(until, 3_000):
                batch = consumer.poll(5)
                found += batch.value.to_pylist()
                consumer.commit(batch)
                kept |= batch.next_offsets
    with Consumer(tubemq_peer.url, group=group, **ONE_OF_ONE, **PATIENCE_MS) as consumer:
        consumer.assign(kept)
        more = send(tubemq_peer.address, topic, 9, 3_000)
        again: list[bytes | None] = []
        while len(again) < 9:
            batch = consumer.poll(10)
            again += batch.value.to_pylist()
            consumer.commit(batch)
    assert sorted(found) == sorted(sent)
    assert sorted(again) == sorted(more)
