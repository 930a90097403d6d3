"""Kafka's verifiable consumers and producers, and its performance tools, unmodified: two in a group, one killed."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

import penstock
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.groups.verifiable import acknowledged, committed, holding, read, read_from
from tests.interop.node_or_kafka import WHERE, node_or_kafka
from tools.peers import kafka, kafka_verifiable
from tools.peers.kafka_verifiable import Verifiable
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

PARTITIONS, SESSION_MS, WITHIN_S = 6, 6_000, 40.0
RECORDS = 3_000
SENDING = ("--max-messages", f"{RECORDS}", "--throughput", "1000", "--repeating-keys", "60")
EVERYTHING = frozenset(range(PARTITIONS))
JAVAS = "org.apache.kafka.clients.consumer."
SOON = {
    "group.consumer.session.timeout.ms": SESSION_MS,
    "group.consumer.min.session.timeout.ms": SESSION_MS,
    "group.consumer.heartbeat.interval.ms": 1_000,
    "group.consumer.min.heartbeat.interval.ms": 1_000,
}
"""Members of newer groups are missed soon."""


class Kind(NamedTuple):
    """How members of a group are told to share."""

    version: str
    arguments: tuple[str, ...]


def classic(version: str, assignor: str) -> Kind:
    return Kind(version, ("--assignment-strategy", f"{JAVAS}{assignor}", "--session-timeout", f"{SESSION_MS}"))


COOPERATIVE = classic(kafka.NEWEST, "CooperativeStickyAssignor")
KINDS = {
    **{
        f"{version}-{name}": classic(version, name)
        for version in kafka.VERSIONS
        for name in ("RangeAssignor", "RoundRobinAssignor", "StickyAssignor", "CooperativeStickyAssignor")
    },
    **{
        f"{kafka.NEWEST}-consumer-{name}": Kind(
            kafka.NEWEST, ("--group-protocol", "consumer", "--group-remote-assignor", name)
        )
        for name in ("uniform", "range")
    },
}


def consumers(bootstrap: str, kind: Kind, home: Path, running: ExitStack) -> list[Verifiable]:
    """Two in one group, which share the topic."""
    config = home / "consumer.properties"
    config.write_text("heartbeat.interval.ms=300\n" if "--session-timeout" in kind.arguments else "")
    try:
        both = [
            running.enter_context(
                kafka_verifiable.consumer(bootstrap, "g", "t", *kind.arguments, config=config, version=kind.version)
            )
            for _ in range(2)
        ]
    except Unavailable as reason:
        pytest.skip(f"no Kafka tools {kind.version}: {reason}")
    comes_to(lambda: sorted(map(len, map(holding, both))), [PARTITIONS // 2] * 2, WITHIN_S)
    return both


def one_is_killed(bootstrap: str, kind: Kind, home: Path) -> None:
    with penstock.Admin(f"kafka://{bootstrap}") as admin, ExitStack() as running:
        admin.create_topics([penstock.NewTopic("t", PARTITIONS)])
        killed, left = consumers(bootstrap, kind, home, running)
        theirs = holding(killed)
        sender = running.enter_context(kafka_verifiable.producer(bootstrap, "t", *SENDING, version=kind.version))
        killed.wait(lambda it: len(read(it)) > RECORDS // 10 and committed(it).keys() == theirs, WITHIN_S)
        killed.kill()
        left.wait(lambda it: holding(it) == EVERYTHING, WITHIN_S)
        sender.wait(lambda it: it.events("shutdown_complete"), WITHIN_S)
        sent = acknowledged(sender)
        ends = {number: max(offset for at, offset in sent if at == number) + 1 for number in EVERYTHING}
        left.wait(lambda it: {**committed(killed), **committed(it)} == ends, WITHIN_S)
        assert sorted(map(int, sent.values())) == list(range(RECORDS))
        assert read(killed, left) == sent
        assert {each.id: place.offset for each, place in admin.committed("g").items()} == ends
    for number in theirs:
        goes_on_where_it_was_committed(killed, left, number)


def goes_on_where_it_was_committed(killed: Verifiable, left: Verifiable, number: int) -> None:
    """What it had not said yet when it was killed may be committed, too; nothing that it did not read is."""
    before, after = read_from(killed, number), read_from(left, number)
    assert after == list(range(after[0], after[-1] + 1))
    assert committed(killed)[number] <= after[0] <= before[-1] + 1


def test_what_a_killed_verifiable_consumer_had_goes_to_the_other(tmp_path: Path) -> None:
    with node_or_kafka("node", tmp_path / "server", SOON) as bootstrap:
        one_is_killed(bootstrap, COOPERATIVE, tmp_path)


@pytest.mark.long
@WHERE
@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_so_it_is_for_every_assignor_version_and_protocol(tmp_path: Path, kind: Kind, where: str) -> None:
    with node_or_kafka(where, tmp_path / "server", SOON) as bootstrap:
        one_is_killed(bootstrap, kind, tmp_path)


@pytest.mark.parametrize(
    "version", [pytest.param(each, marks=() if each == kafka.NEWEST else pytest.mark.long) for each in kafka.VERSIONS]
)
def test_performance_tools_write_and_read_as_many_as_they_were_told(
    broker: Broker, kafka_tools: Callable[..., str], version: str
) -> None:
    broker.create_topic("t", partitions=3)
    at = {"bootstrap": broker.bootstrap, "version": version}
    sizes = ["--num-records", "50000", "--record-size", "100", "--throughput", "-1", "--topic", "t"]
    older = version.startswith("3.")
    where = ["--producer-props", f"bootstrap.servers={broker.bootstrap}"] if older else []
    written = producer_perf(version, sizes + (where or ["--bootstrap-server", broker.bootstrap]))
    count = "--messages" if older else "--num-records"
    printed = kafka_tools("consumer-perf", "--topic", "t", "--group", "g", count, "50000", **at)

    assert "50000 records sent" in written
    names, values = [line.split(", ") for line in printed.splitlines() if ", " in line][-2:]
    told = dict(zip(names, values, strict=True))
    assert told["data.consumed.in.nMsg"] == "50000"
    with penstock.Admin(broker.address) as admin:
        assert sum(place.offset for place in admin.committed("g").values()) == 50_000


def producer_perf(version: str, line: list[str]) -> str:
    try:
        return kafka.tool("producer-perf", line, version=version).stdout
    except Unavailable as reason:
        pytest.skip(f"no Kafka tools {version}: {reason}")
