"""Partitions of a cluster behind a node keep their numbers, whatever becomes of the nodes that have them."""

from __future__ import annotations

import socket
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Admin, Producer, RangeReader
from penstock.errors import ServerError
from penstock.interfaces import NewTopic
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.framing import api_of, read_response, request
from penstock.protocols.kafka.wire.metadata import (
    ListOffsetsRequest,
    ListOffsetsRequestPartition,
    ListOffsetsRequestTopic,
    MetadataRequest,
    MetadataRequestTopic,
)
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.toy.cluster import ToyCluster, registered, toy_cluster
from tests.toy.numbering import Numbering

COUNTS = {0: 1, 1: 2, 2: 3, 3: 4}  # records by partition
OF_NODE_2 = {1, 3}


def asked(broker: Broker, message: Any, version: int) -> Any:
    """What the node answers, as it stands there: a client would try again."""
    host, _, port = broker.bootstrap.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=30) as line:
        line.sendall(b"".join(request(message, version, "test")(7)))
        stream = line.makefile("rb")
        answer = stream.read(int.from_bytes(stream.read(4), "big"))
    pair = api_of(message.API.key)
    assert pair is not None
    return read_response(pair.response, version, memoryview(answer))


def ends(broker: Broker) -> dict[int, int]:
    """By Kafka's partition: where its log ends, or the code that says why that is not told, below zero."""
    parts = [ListOffsetsRequestPartition(partition_index=number, timestamp=-1) for number in COUNTS]
    message = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsRequestTopic(name="t", partitions=parts)])
    (topic,) = asked(broker, message, 4).topics
    return {part.partition_index: -part.error_code or part.offset for part in topic.partitions}


def numbers(broker: Broker) -> list[int]:
    (topic,) = asked(broker, MetadataRequest(topics=[MetadataRequestTopic(name="t")]), 8).topics
    assert not topic.error_code
    return [part.partition_index for part in topic.partitions]


def filled(broker: Broker) -> None:
    with Admin(broker.address) as admin:
        admin.create_topics([NewTopic("t", len(COUNTS))])
    with Producer(broker.address) as producer:
        for number, count in COUNTS.items():
            for _ in range(count):
                producer.send("t", b"x", partition=number).result(30)


def lose_a_node(cluster: ToyCluster) -> None:
    """Kill it, and have the name server forget it, as RocketMQ's do after two minutes."""
    cluster.nodes[1].kill()
    cluster.forget()
    comes_to(lambda: registered(cluster), {"node-1"})


def test_what_kafka_calls_a_partition_stays_it_while_a_node_is_away_and_forgotten(tmp_path: Path) -> None:
    with toy_cluster(f"file:{tmp_path}") as cluster, Broker(cluster.address, offsets_partitions=2) as broker:
        filled(broker)
        assert (numbers(broker), ends(broker)) == (list(COUNTS), COUNTS)
        lose_a_node(cluster)
        away = dict.fromkeys(OF_NODE_2, -ErrorCode.NOT_LEADER_OR_FOLLOWER)
        assert (numbers(broker), ends(broker)) == (list(COUNTS), COUNTS | away)
        cluster.start(cluster.nodes[1])
        comes_to(lambda: ends(broker), COUNTS)


def test_what_tubemq_calls_a_partition_stays_it_while_a_node_is_away_and_forgotten(tmp_path: Path) -> None:
    listen = ["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]
    with toy_cluster(f"file:{tmp_path}") as cluster, Broker(cluster.address, listen=listen) as broker:
        filled(broker)
        wanted = {Partition("t", number * 10_000, "1"): 28 * count for number, count in COUNTS.items()}
        with RangeReader(broker.url("tubemq"), api_timeout_ms=500) as reader:
            assert reader.end_offsets(wanted) == wanted
            lose_a_node(cluster)
            assert [info.partition for info in reader.topics(["t"])["t"].partitions] == sorted(wanted)
            here = {partition: end for partition, end in wanted.items() if partition.id // 10_000 not in OF_NODE_2}
            assert reader.end_offsets(here) == here
            with pytest.raises(ServerError) as caught:
                reader.end_offsets(wanted.keys() - here.keys())
            assert (caught.value.name, caught.value.retriable) == ("SERVICE_UNAVAILABLE", True)
            cluster.start(cluster.nodes[1])
            comes_to(lambda: not ends_or_nothing(reader, wanted), False)
            assert reader.end_offsets(wanted) == wanted


def ends_or_nothing(reader: RangeReader, wanted: Mapping[Partition, int]) -> Mapping[Partition, int]:
    try:
        return reader.end_offsets(wanted)
    except ServerError:
        return {}


def test_numbers_are_given_once() -> None:
    numbering = Numbering()
    numbering.told({"a": {"t": 2}, "b": {"t": 2}})
    dealt = [("a", 0), ("b", 0), ("a", 1), ("b", 1)]
    assert numbering.homes("t") == dealt
    numbering.told({"b": {"t": 2}})
    assert numbering.homes("t") == dealt
    numbering.told({"a": {"t": 3}, "b": {"t": 2}, "A": {"t": 1, "u": 1}})
    assert numbering.homes("t") == [*dealt, ("A", 0), ("a", 2)]
    assert numbering.homes("u") == [("A", 0)]


def test_a_topic_that_was_deleted_has_no_numbers() -> None:
    numbering = Numbering()
    numbering.told({"a": {"t": 2}, "b": {"t": 2}})
    numbering.told({"a": {"t": 1}, "b": {}})
    assert numbering.homes("t") == [("a", 0)]
    numbering.told({"a": {}, "b": {}})
    assert (numbering.homes("t"), numbering.topics()) == ((), [])
