"""Every option of a topic, with values right and wrong: our node takes and refuses what a real broker does."""

from __future__ import annotations

import asyncio
import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from confluent_kafka import Consumer as ConfluentConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ConfigSource
from confluent_kafka.admin import NewTopic as NewForeignTopic

from penstock.client import Admin, Producer
from penstock.interfaces import NewTopic
from penstock.model import Codec
from penstock.protocols.kafka.server.topic_options import OPTIONS, Kind
from penstock.protocols.kafka.wire.configs import (
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from penstock.protocols.kafka.wire.topics import (
    CreateTopicsRequest,
    CreateTopicsRequestConfig,
    CreateTopicsRequestTopic,
)
from penstock.records.batch import batches
from penstock.testing import Broker
from tests.interop.peers.fixtures import KafkaBroker
from tests.interop.wire import Wire, wired
from tools.peers import kafka

pytestmark = pytest.mark.interop

Told = dict[str, object]
_TOPIC = 2
_SET, _DELETE, _APPEND, _SUBTRACT = range(4)
_NUMBERS = (
    *("x", "", "1.5", "1_000", " 5 ", "+5", "0005", "0x5", "-1", "-2", "-3", "0", "1", "4", "9", "10", "17", "18"),
    *("22", "23", "-131072", "-131073", "2147483647", "2147483648", "9223372036854775807", "9223372036854775808"),
)
_LISTS = ("", "*", "none", "0:1", "0:1,1:1", "0:1, x", ",", "delete", "delete, compact", "delete,delete", "delete,")
VALUES: Mapping[int, tuple[str, ...]] = {
    Kind.BOOLEAN: ("true", "false", " TRUE ", "yes", "", "1"),
    Kind.STRING: ("producer", "gzip", "snappy", "lz4", "zstd", "uncompressed", "GZIP", "", "LogAppendTime"),
    Kind.INT: _NUMBERS,
    Kind.LONG: _NUMBERS,
    Kind.DOUBLE: ("0", "1", "0.5", "1e-1", ".5", "5.", "-0.1", "1.1", "2", "x", "", "NaN", "inf", "1_0"),
    Kind.LIST: _LISTS,
}
TOGETHER: tuple[Mapping[str, str | None], ...] = (
    {"min.compaction.lag.ms": "10", "max.compaction.lag.ms": "5"},
    {"local.retention.ms": "6", "retention.ms": "5"},
    {"remote.storage.enable": "true", "cleanup.policy": "compact"},
    {"remote.log.copy.disable": "true", "remote.log.delete.on.disable": "true"},
    {"nonsense": "1"},
    {"nonsense": None, "retention.ms": "x"},
    {"segment.bytes": "x", "cleanup.policy": "delete"},
    {"message.format.version": "3.0"},
)


class Topic:
    """A topic whose options are asked about; nothing is changed."""

    def __init__(self, wire: Wire, name: str) -> None:
        self.wire, self.name = wire, name

    async def described(self) -> list[Any]:
        resource = DescribeConfigsRequestResource(
            resource_type=_TOPIC, resource_name=self.name, configuration_keys=None
        )
        message = DescribeConfigsRequest(resources=[resource], include_synonyms=True, include_documentation=True)
        return list((await self.wire.ask(message, 4)).results[0].configs)

    async def alter(self, *changes: tuple[str, int, str | None]) -> tuple[int, str | None]:
        configs = [
            IncrementalAlterConfigsRequestConfig(name=name, config_operation=operation, value=value)
            for name, operation, value in changes
        ]
        resource = IncrementalAlterConfigsRequestResource(
            resource_type=_TOPIC, resource_name=self.name, configs=configs
        )
        message = IncrementalAlterConfigsRequest(resources=[resource], validate_only=True)
        answer = (await self.wire.ask(message, 1)).responses[0]
        return answer.error_code, answer.error_message

    async def create(self, options: Mapping[str, str | None]) -> tuple[int, str | None]:
        configs = [CreateTopicsRequestConfig(name=name, value=value) for name, value in options.items()]
        topic = CreateTopicsRequestTopic(name="new", num_partitions=1, replication_factor=1, configs=configs)
        message = CreateTopicsRequest(topics=[topic], timeout_ms=9_000, validate_only=True)
        answer = (await self.wire.ask(message, 5)).topics[0]
        return answer.error_code, answer.error_message


def changes(name: str, kind: int) -> Iterator[tuple[str, int, str | None]]:
    for value in VALUES[kind]:
        # Smaller segments than Kafka 4 allows are taken here, as Kafka 3 does.
        if name != "segment.bytes" or not value.strip().lstrip("+-").isdigit() or int(value) > 1 << 30:
            yield name, _SET, value
    yield from ((name, _SET, None), (name, _DELETE, None), (name, _APPEND, "1"), (name, _SUBTRACT, "1"))


async def refusals(topic: Topic) -> Told:
    found: Told = {}
    for option in await topic.described():
        for change in changes(option.name, option.config_type):
            found[repr(change)] = await topic.alter(change)
            if change[1] == _SET:
                found[f"create with {change}"] = await topic.create({change[0]: change[2]})
    for options in TOGETHER:
        found[f"create with {options}"] = await topic.create(options)
    found["unknown"] = [await topic.alter(("nonsense", operation, "1")) for operation in range(4)]
    found["twice"] = await topic.alter(("retention.ms", _SET, "1"), ("retention.ms", _SET, "2"))
    return found


async def names(topic: Topic) -> Told:
    return {
        each.name: (each.value, each.config_type, each.is_sensitive, each.read_only, bool(each.documentation))
        for each in await topic.described()
    }


async def synonyms(topic: Topic) -> Told:
    """But for what the real broker of the tests has in its own configuration."""
    own = {"min.insync.replicas", "retention.ms"}
    return {
        each.name: [(one.name, one.value, one.source) for one in each.synonyms]
        for each in await topic.described()
        if each.name not in own
    }


BY_TOOLS: Mapping[str, Mapping[str, str]] = {
    # Kafka Streams: the changelog of a versioned store, of a windowed one, and a repartition topic.
    "app-versioned-changelog": {
        "cleanup.policy": "compact",
        "message.timestamp.type": "CreateTime",
        "min.compaction.lag.ms": "86700000",
    },
    "app-windowed-changelog": {
        "cleanup.policy": "compact,delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "90000000",
    },
    "app-repartition": {
        "cleanup.policy": "delete",
        "message.timestamp.type": "CreateTime",
        "retention.ms": "-1",
        "segment.bytes": "52428800",
    },
    # Kafka Connect: its own topics, and one that a source connector makes by topic.creation.default.…
    "connect-offsets": {"cleanup.policy": "compact", "min.insync.replicas": "2"},
    "connect-source": {
        "cleanup.policy": "compact",
        "compression.type": "lz4",
        "max.compaction.lag.ms": "3600000",
        "min.insync.replicas": "2",
        "unclean.leader.election.enable": "false",
    },
    # MirrorMaker: what the source cluster has set.
    "source.orders": {
        "compression.type": "gzip",
        "compression.gzip.level": "9",
        "file.delete.delay.ms": "1",
        "flush.messages": "100",
        "flush.ms": "1000",
        "index.interval.bytes": "1024",
        "max.message.bytes": "2000000",
        "message.timestamp.after.max.ms": "3600000",
        "min.cleanable.dirty.ratio": "0.1",
        "preallocate": "true",
        "segment.index.bytes": "1000000",
        "segment.jitter.ms": "10",
    },
}
"""Topics as other people's tools make them."""


def test_topics_of_streams_connect_and_mirrormaker_are_made_as_they_want_them(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    made = admin.create_topics([NewForeignTopic(name, 1, 1, config=dict(each)) for name, each in BY_TOOLS.items()])
    for future in made.values():
        future.result(30)
    resources = [ConfigResource(ConfigResource.Type.TOPIC, name) for name in BY_TOOLS]
    for resource, told in admin.describe_configs(resources).items():
        options = told.result(30)
        wanted = BY_TOOLS[resource.name]
        assert {name: options[name].value for name in wanted} == wanted
        assert {name for name, each in options.items() if each.source == ConfigSource.DYNAMIC_TOPIC_CONFIG.value} == {
            *wanted
        }


def test_an_option_is_altered_and_its_values_are_used(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewForeignTopic("t", 1, 1)])["t"].result(30)
    change = [
        ConfigEntry("compression.type", "zstd", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("compression.zstd.level", "9", incremental_operation=AlterConfigOpType.SET),
    ]
    (altered,) = admin.incremental_alter_configs(
        [ConfigResource(ConfigResource.Type.TOPIC, "t", incremental_configs=change)]
    ).values()
    altered.result(30)
    with Producer(broker.address, compression="gzip") as producer:
        for number in range(100):
            producer.send("t", value=b"%d" % number)
        producer.flush()
    read = ConfluentConsumer({"bootstrap.servers": broker.bootstrap, "group.id": "g", "auto.offset.reset": "earliest"})
    try:
        read.subscribe(["t"])
        values: list[bytes] = []
        while len(values) < 100:
            values += [message.value() for message in read.consume(100, 10)]
        assert values == [b"%d" % number for number in range(100)]
    finally:
        read.close()
    broker.stop()
    segment = broker.store_folder / "t-0" / "00000000000000000000.log"
    assert {header.codec for header in batches(segment.read_bytes())} == {Codec.ZSTD}


def test_kafkas_dump_tool_reads_batches_of_every_codec_and_level(broker: Broker) -> None:
    levels = {"gzip": ("1", "9"), "lz4": ("1", "9", "17"), "zstd": ("-7", "22"), "snappy": ("",), "uncompressed": ("",)}
    topics = {f"{kind}{level}": (kind, level) for kind, each in levels.items() for level in each}
    for name, (kind, level) in topics.items():
        options = {"compression.type": kind, **({f"compression.{kind}.level": level} if level else {})}
        with Admin(broker.address) as admin:
            admin.create_topics([NewTopic(name, 1, 1, options)])
    with Producer(broker.address, compression="snappy") as producer:
        for name in topics:
            for number in range(3_000):
                producer.send(name, value=b"flight %d was late by %d" % (number, number % 7))
        producer.flush()
    broker.stop()
    files = ",".join(str(broker.store_folder / f"{name}-0" / "00000000000000000000.log") for name in topics)

    dumped = kafka.tool("dump-log", ["--files", files, "--print-data-log"]).stdout

    assert "isvalid: false" not in dumped
    assert dumped.count("payload: flight 2999 was late by 3") == len(topics)
    stated = set(re.findall(r"compresscodec: (\w+)", dumped))
    assert stated == {"gzip", "lz4", "zstd", "snappy", "none"}


@pytest.mark.parametrize("version", kafka.VERSIONS)
def test_javas_tools_set_and_show_every_option(broker: Broker, kafka_tools: Callable[..., str], version: str) -> None:
    at = {"bootstrap": broker.bootstrap, "version": version}
    wanted = {name: each for options in BY_TOOLS.values() for name, each in options.items()}
    wanted |= {
        "leader.replication.throttled.replicas": "0:1,1:1",
        "min.compaction.lag.ms": "6",
        "retention.bytes": "-1",
    }
    given = [part for name, value in wanted.items() for part in ("--config", f"{name}={value}")]
    kafka_tools("topics", "--create", "--topic", "t", *given, **at)
    changed = {"compression.type": "snappy", "cleanup.policy": "[compact,delete]", "min.compaction.lag.ms": "7"}
    pairs = ",".join(f"{name}={value}" for name, value in changed.items())
    entity = ("--entity-type", "topics", "--entity-name", "t")
    kafka_tools("configs", "--alter", *entity, "--add-config", pairs, "--delete-config", "flush.ms", **at)

    shown = kafka_tools("configs", "--describe", *entity, "--all", **at)

    after = {**wanted, **changed, "cleanup.policy": "compact,delete"}
    del after["flush.ms"]
    rows = {line.split("=", 1)[0].strip(): line.strip() for line in shown.splitlines() if "sensitive=" in line}
    assert set(OPTIONS) == set(rows)
    for name, value in after.items():
        assert rows[name].startswith(
            f"{name}={value} sensitive=false synonyms={{DYNAMIC_TOPIC_CONFIG:{name}={value}"
        ), rows
    assert "DEFAULT_CONFIG:log.cleaner.min.compaction.lag.ms=0" in rows["min.compaction.lag.ms"]
    assert "DYNAMIC" not in rows["flush.ms"]


def answers(bootstrap: str, question: Any, options: Mapping[str, str]) -> Told:
    name = f"t-{uuid.uuid4().hex[:8]}"
    with Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([NewTopic(name, 1, 1, options)])

    async def main() -> Told:
        async with wired(bootstrap) as wire:
            told: Told = await question(Topic(wire, name))
            return told

    return asyncio.run(asyncio.wait_for(main(), 60))


@pytest.mark.parametrize("question", [names, synonyms, refusals])
def test_our_node_answers_as_a_real_broker(kafka_broker: KafkaBroker, broker: Broker, question: Any) -> None:
    options = {"retention.ms": " +5 ", "preallocate": "TRUE", "cleanup.policy": "delete, compact,delete"}
    theirs, ours = (answers(each.bootstrap, question, options) for each in (kafka_broker(), broker))
    assert theirs.keys() == ours.keys()
    assert {what: (told, ours[what]) for what, told in theirs.items() if told != ours[what]} == {}
