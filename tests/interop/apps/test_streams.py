"""Kafka Streams, unmodified: an application of two instances counts words, one is killed, the counts are right."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import penstock
from penstock.testing import NodeProcess
from tests.eventually import comes_to
from tests.interop.apps.words import COUNTS, PARTITIONS, WORDS, counted, create_topics, last, one_by_one, text, write
from tests.interop.command_line import penstock_says
from tests.interop.node_or_kafka import WHERE, node_or_kafka
from tools.peers import kafka, kafka_java
from tools.peers.java_driver import Driver
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

WITHIN_S = 60.0
TASKS = 2 * PARTITIONS
"""As many read words and as many count."""
APPLICATION = "counting"
BETWEEN = f"{APPLICATION}-words-repartition"
AT_LEAST_ONCE, EXACTLY_ONCE = "at_least_once", "exactly_once_v2"
SOON = {
    "main.consumer.session.timeout.ms": "6000",
    "main.consumer.heartbeat.interval.ms": "300",
    "producer.transaction.timeout.ms": "5000",
}
"""Who is killed is missed soon, and what it had begun is aborted soon."""


@contextmanager
def application(
    bootstrap: str, home: Path, instances: int, version: str = kafka.NEWEST_APPS, **options: str
) -> Iterator[Sequence[Driver]]:
    """So many instances, that share the work; options of Streams have underscores for dots here."""
    create_topics(bootstrap)
    names = {"bootstrap": bootstrap, "application": APPLICATION, "from": WORDS, "to": COUNTS}
    told = {**names, **SOON, **{name.replace("_", "."): value for name, value in options.items()}}
    with ExitStack() as running:
        try:
            every = [
                running.enter_context(kafka_java.counts({**told, "state": f"{home / f'{each}'}"}, version=version))
                for each in range(instances)
            ]
        except Unavailable as reason:
            pytest.skip(f"no Kafka Streams {version}: {reason}")
        yield every


def await_shared(instances: Sequence[Driver]) -> None:
    """Every task has one instance, and every instance has some."""
    shares = [TASKS // len(instances)] * len(instances)
    comes_to(lambda: sorted(len(each.holding) for each in instances), shares, WITHIN_S)


def committed(bootstrap: str) -> dict[str, int]:
    """Of each topic that the group reads, how many records it has done with."""
    found: Counter[str] = Counter()
    with penstock.Admin(f"kafka://{bootstrap}") as admin:
        for partition, place in admin.committed(APPLICATION).items():
            found[partition.topic] += place.offset
    return found


def killed_between_two_halves(bootstrap: str, home: Path, version: str = kafka.NEWEST_APPS, **options: str) -> None:
    """All was committed: whoever takes over goes on from there, and nothing is counted twice under any guarantee."""
    words = text(2_000)
    with (
        penstock.Producer(f"kafka://{bootstrap}") as producer,
        application(bootstrap, home, 2, version, **options) as (one, other),
    ):
        await_shared([one, other])
        write(producer, words[:1_000])
        comes_to(lambda: last(bootstrap), Counter(words[:1_000]), WITHIN_S)
        comes_to(lambda: committed(bootstrap), {WORDS: 1_000, BETWEEN: 1_000}, WITHIN_S)
        one.kill()
        write(producer, words[1_000:])
        comes_to(lambda: last(bootstrap), Counter(words), WITHIN_S)
        assert counted(bootstrap) == one_by_one(words)
        assert not other.events("error")


def killed_while_it_counts(bootstrap: str, home: Path, version: str = kafka.NEWEST_APPS, **options: str) -> None:
    """Words come all the while."""
    words = text(6_000)
    with (
        penstock.Producer(f"kafka://{bootstrap}") as producer,
        application(bootstrap, home, 2, version, **options) as (one, other),
    ):
        await_shared([one, other])
        shown_to_operators(bootstrap)
        writer = threading.Thread(target=_write_slowly, args=[producer, words])
        writer.start()
        comes_to(lambda: sum(last(bootstrap).values()) > 1_000, True, WITHIN_S)
        one.kill()
        writer.join()
        comes_to(lambda: sum(last(bootstrap).values()) >= len(words), True, WITHIN_S)
        assert not other.events("error")


def shown_to_operators(bootstrap: str) -> None:
    """Kafka's own tool, and ours, take the two for members of a group of consumers."""
    told = kafka.tool("groups", ["--bootstrap-server", bootstrap, "--describe", "--group", APPLICATION, "--state"])
    (row,) = [line.split() for line in told.stdout.splitlines() if line.startswith(APPLICATION)]
    assert row[-3:] == ["stream", "Stable", "2"]
    listed = penstock_says("groups", "list", f"kafka://{bootstrap}")
    assert listed.split() == [APPLICATION, "Stable", "consumer", "classic"]
    described = penstock_says("groups", "describe", f"kafka://{bootstrap}", APPLICATION)
    shown = {tuple(line.split("\t")[1:3]) for line in described.splitlines()}
    assert shown == {(topic, f"{number}") for topic in (WORDS, BETWEEN) for number in range(PARTITIONS)}


def _write_slowly(producer: penstock.Producer, words: Sequence[str]) -> None:
    pause = threading.Event()
    for first in range(0, len(words), 50):
        write(producer, words[first : first + 50])
        pause.wait(0.05)


def test_two_instances_count_exactly_once_though_one_is_killed(tmp_path: Path) -> None:
    with node_or_kafka("node", tmp_path / "server") as bootstrap:
        killed_while_it_counts(bootstrap, tmp_path, processing_guarantee=EXACTLY_ONCE)
        assert counted(bootstrap) == one_by_one(text(6_000))


@pytest.mark.long
@WHERE
@pytest.mark.parametrize("version", kafka.APP_VERSIONS)
def test_a_killed_instance_counts_exactly_once(tmp_path: Path, where: str, version: str) -> None:
    with node_or_kafka(where, tmp_path / "server") as bootstrap:
        killed_while_it_counts(bootstrap, tmp_path, version, processing_guarantee=EXACTLY_ONCE)
        assert counted(bootstrap) == one_by_one(text(6_000))


@pytest.mark.long
@WHERE
@pytest.mark.parametrize("version", kafka.APP_VERSIONS)
def test_a_killed_instance_counts_at_least_once(tmp_path: Path, where: str, version: str) -> None:
    with node_or_kafka(where, tmp_path / "server") as bootstrap:
        killed_while_it_counts(bootstrap, tmp_path, version, processing_guarantee=AT_LEAST_ONCE)
        counts, words = last(bootstrap), Counter(text(6_000))
        assert counts.keys() == words.keys()
        assert all(counts[word] >= count for word, count in words.items())


@pytest.mark.long
@WHERE
@pytest.mark.parametrize("options", [{}, {"group_protocol": "classic"}, {"num_standby_replicas": "1"}], ids=str)
def test_counts_are_right_after_a_kill_at_rest(tmp_path: Path, where: str, options: Mapping[str, str]) -> None:
    with node_or_kafka(where, tmp_path / "server") as bootstrap:
        killed_between_two_halves(bootstrap, tmp_path, **options)


@pytest.mark.parametrize("where", ["node", pytest.param("kafka", marks=pytest.mark.long)])
def test_the_protocol_of_streams_own_groups_is_refused_as_by_a_broker_without_it(tmp_path: Path, where: str) -> None:
    """KIP-1071: a real broker of 4.3 has it, unless it is told otherwise."""
    without = {"group.coordinator.rebalance.protocols": "classic,consumer"} if where == "kafka" else {}
    with (
        node_or_kafka(where, tmp_path / "server", without) as bootstrap,
        application(bootstrap, tmp_path, 1, group_protocol="streams") as (one,),
    ):
        one.wait(lambda it: it.events("error"), WITHIN_S)
        (error,) = one.events("error")
        assert error["kind"] == "UnsupportedVersionException"
        assert "does not support the STREAMS group protocol" in error["why"]
        one.wait(lambda it: it.events("closed"), WITHIN_S)


@pytest.mark.long
def test_words_are_counted_once_though_the_node_is_killed(tmp_path: Path) -> None:
    words = text(6_000)
    with (
        NodeProcess(tmp_path / "store") as node,
        application(node.bootstrap, tmp_path, 2, processing_guarantee=EXACTLY_ONCE) as instances,
        penstock.Producer(node.address) as producer,
    ):
        await_shared(instances)
        writer = threading.Thread(target=_write_slowly, args=[producer, words])
        writer.start()
        for more in (1_000, 3_000):
            comes_to(lambda: sum(last(node.bootstrap).values()) > more, True, WITHIN_S)  # noqa: B023
            node.kill()
            node.start()
        writer.join()
        comes_to(lambda: last(node.bootstrap), Counter(words), WITHIN_S)
        assert counted(node.bootstrap) == one_by_one(words)
        assert not [each for one in instances for each in one.events("error")]
