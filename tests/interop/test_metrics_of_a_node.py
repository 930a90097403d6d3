"""A node's metrics under real clients' traffic: what they say they sent is what was counted."""

from __future__ import annotations

import urllib.request
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer
from prometheus_client.parser import text_string_to_metric_families

from penstock.testing import Broker
from tools.peers import jvm, rocketmq, rocketmq_clients
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_clients import Mail

pytestmark = pytest.mark.interop

SENT, MAILED = 40, 12
COUNT = "penstock_request_seconds_count"


class Page:
    """A scrape: samples by name and labels."""

    def __init__(self, port: int) -> None:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10) as answer:
            families = list(text_string_to_metric_families(answer.read().decode()))
        self._samples = [sample for family in families for sample in family.samples]

    def of(self, name: str, **labels: str) -> float:
        """The sum of all samples with these labels."""
        return sum(each.value for each in self._samples if each.name == name and labels.items() <= each.labels.items())


def mailed(names: str, topic: str) -> None:
    """Java's producer says of each message that it is stored."""
    try:
        with rocketmq_clients.producer(names) as sender:
            answers = sender.send([Mail(topic, [b"x" * 500]) for _ in range(MAILED)])
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ client: {reason}")
    assert [line["event"] for line in answers] == ["sent"] * MAILED


def test_what_clients_of_two_protocols_did_is_what_was_counted() -> None:
    (port,) = jvm.free_ports(1)
    listen = ["kafka://127.0.0.1:0", "rocketmq://127.0.0.1:0"]
    with Broker("memory:", listen=listen, metrics=f"http://127.0.0.1:{port}") as node:
        kafka = node.url("kafka").removeprefix("kafka://")
        node.create_topic("counted", partitions=2)
        producer = Producer({"bootstrap.servers": kafka, "linger.ms": 0})
        for _ in range(SENT):  # one by one: a request each
            producer.produce("counted", b"x" * 500)
            assert producer.flush(30) == 0
        mailed(node.url("rocketmq").removeprefix("rocketmq://"), "counted")
        reader = Consumer({"bootstrap.servers": kafka, "group.id": "g", "auto.offset.reset": "earliest"})
        reader.subscribe(["counted"])
        read = 0
        while read < SENT + MAILED:
            read += len(reader.consume(SENT + MAILED, timeout=30))
        page = Page(port)
        assert page.of(COUNT, front="kafka", api="Produce") == SENT
        assert page.of(COUNT, front="rocketmq", api="SEND_MESSAGE_V2") == MAILED
        assert page.of("penstock_errors_total", api="Produce") == 0
        assert page.of("penstock_errors_total", api="SEND_MESSAGE_V2") == 0
        assert page.of("penstock_groups", front="kafka") == 1
        assert page.of("penstock_group_members", front="kafka") == 1
        assert page.of("penstock_connections", front="kafka") >= 2
        assert page.of("penstock_bytes_total", front="kafka", direction="in") > SENT * 500
        assert page.of("penstock_bytes_total", front="kafka", direction="out") > (SENT + MAILED) * 500
        assert page.of("penstock_bytes_total", front="rocketmq", direction="in") > MAILED * 500
        reader.close()
        assert Page(port).of("penstock_group_members", front="kafka") == 0


@pytest.mark.long
def test_what_went_on_to_real_brokers_is_counted_and_a_lost_cluster_is_said(tmp_path: Path) -> None:
    (port,) = jvm.free_ports(1)
    try:
        running = rocketmq.cluster(tmp_path)
        with running as cluster:
            cluster.create_topic("counted")
            url = f"rocketmq://{cluster.address}"
            page = f"http://127.0.0.1:{port}"
            with Broker(url, listen=["rocketmq://127.0.0.1:0"], metrics=page) as node:
                mailed(node.url("rocketmq").removeprefix("rocketmq://"), "counted")
                found = Page(port)
                assert found.of(COUNT, front="rocketmq", api="SEND_MESSAGE_V2") == MAILED
                assert found.of("penstock_ready") == 1
                assert found.of("penstock_enode_connections") >= 2
                assert found.of("penstock_enode_bytes_total", direction="out") > MAILED * 500
                for server in (*cluster.names, *cluster.brokers):
                    server.kill()
                while Page(port).of("penstock_ready"):
                    pass
    except Unavailable as reason:
        pytest.skip(f"no RocketMQ: {reason}")
