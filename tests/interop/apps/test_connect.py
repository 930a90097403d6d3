"""Kafka Connect, unmodified: two workers in distributed mode carry lines from file to file, and one is killed."""

from __future__ import annotations

import urllib.error
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
from tests.eventually import comes_to
from tests.interop.command_line import penstock_says
from tests.interop.node_or_kafka import WHERE, node_or_kafka
from tools.peers import kafka
from tools.peers.java_server import start_together
from tools.peers.kafka_connect import FILE_SINK, FILE_SOURCE, GROUP, INTERNAL, Worker, worker
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

WITHIN_S = 60.0
LINES = 400
CLASSES = {"source": FILE_SOURCE, "sink": FILE_SINK}
EXACTLY_ONCE = {"exactly.once.source.support": "enabled"}


@contextmanager
def two_workers(
    bootstrap: str, home: Path, version: str = kafka.NEWEST_APPS, settings: Mapping[str, str] | None = None
) -> Iterator[list[Worker]]:
    try:
        both = [worker(home, bootstrap, name, version=version, settings=settings) for name in ("one", "two")]
    except Unavailable as reason:
        pytest.skip(f"no Kafka Connect {version}: {reason}")
    try:
        start_together(both)
        yield both
    finally:
        for each in both:
            each.kill()


class Files:
    """Lines that go from one file through a topic into another."""

    def __init__(self, home: Path) -> None:
        self._source, self._sink = home / "from.txt", home / "to.txt"
        self._source.touch()
        self._sink.touch()

    def connectors(self) -> dict[str, dict[str, str]]:
        common = {"tasks.max": "1"}
        return {
            "source": {**common, "connector.class": FILE_SOURCE, "file": f"{self._source}", "topic": "lines"},
            "sink": {**common, "connector.class": FILE_SINK, "file": f"{self._sink}", "topics": "lines"},
        }

    def write(self, lines: range) -> None:
        with self._source.open("a") as file:
            file.writelines(f"{line}\n" for line in lines)

    def arrived(self) -> list[int]:
        return [int(line) for line in self._sink.read_text().splitlines()]


def runs_at(workers: list[Worker], asked: Worker) -> dict[str, str]:
    """Connectors and tasks that run, by the worker that they are at; empty while nobody can say."""
    found: dict[str, str] = {}
    try:
        for connector in CLASSES:
            told = asked.status(connector)
            rows = {connector: told["connector"], **{f"{connector}-{task['id']}": task for task in told["tasks"]}}
            found |= {name: row["worker_id"] for name, row in rows.items() if row["state"] == "RUNNING"}
    except urllib.error.HTTPError:
        return {}
    return {name: at for name, at in found.items() if at in {each.endpoint for each in workers}}


def all_run(workers: list[Worker], asked: Worker) -> bool:
    return runs_at(workers, asked).keys() == {"source", "source-0", "sink", "sink-0"}


def create(asked: Worker, files: Files) -> None:
    """A worker that hands on what it is told, or waits for its group, says so, and is asked again."""
    for name, config in files.connectors().items():
        comes_to(lambda: _created(asked, name, config), True, WITHIN_S)  # noqa: B023


def _created(asked: Worker, name: str, config: Mapping[str, str]) -> bool:
    try:
        asked.create(name, config)
    except urllib.error.HTTPError as error:
        if error.code != 409:  # the group rebalances
            raise
        return False
    return True


def one_is_killed(
    bootstrap: str, home: Path, version: str = kafka.NEWEST_APPS, settings: Mapping[str, str] | None = None
) -> list[int]:
    """Whatever it ran the other runs, and all lines arrive: what did, in order of arrival."""
    files = Files(home)
    with two_workers(bootstrap, home, version, settings) as both:
        create(both[0], files)
        files.write(range(LINES // 2))
        comes_to(lambda: all_run(both, both[0]), True, WITHIN_S)
        comes_to(lambda: set(files.arrived()), set(range(LINES // 2)), WITHIN_S)
        shown_to_operators(bootstrap)
        (dying,) = [each for each in both if each.endpoint == runs_at(both, both[0])["source-0"]]
        (left,) = [each for each in both if each is not dying]
        dying.kill()
        files.write(range(LINES // 2, LINES))
        comes_to(lambda: all_run([left], left), True, WITHIN_S)
        comes_to(lambda: set(files.arrived()), set(range(LINES)), WITHIN_S)
        return files.arrived()


def shown_to_operators(bootstrap: str) -> None:
    address = f"kafka://{bootstrap}"
    listed = [line.split() for line in penstock_says("groups", "list", address).splitlines()]
    assert sorted(listed) == [
        [GROUP, "Stable", "connect", "classic"],
        ["connect-sink", "Stable", "consumer", "classic"],
    ]
    assert len(penstock_says("groups", "describe", address, GROUP, "--members").splitlines()) == 2
    with penstock.Admin(address) as admin:
        assert {admin.topic_config(topic)["cleanup.policy"] for topic in INTERNAL.values()} == {"compact"}


def test_what_a_killed_worker_ran_goes_to_the_other(tmp_path: Path) -> None:
    with node_or_kafka("node", tmp_path / "server") as bootstrap:
        one_is_killed(bootstrap, tmp_path)


@pytest.mark.long
@WHERE
@pytest.mark.parametrize("protocol", ["eager", "compatible", "sessioned"])
@pytest.mark.parametrize("version", kafka.APP_VERSIONS)
def test_so_it_is_in_every_protocol_of_workers(tmp_path: Path, where: str, protocol: str, version: str) -> None:
    with node_or_kafka(where, tmp_path / "server") as bootstrap:
        one_is_killed(bootstrap, tmp_path, version, {"connect.protocol": protocol})


@pytest.mark.long
@WHERE
def test_a_source_that_is_exact_writes_each_line_once(tmp_path: Path, where: str) -> None:
    """By a transaction a batch, with the source's place; the worker that takes over fences the one before."""
    with node_or_kafka(where, tmp_path / "server") as bootstrap:
        one_is_killed(bootstrap, tmp_path, settings=EXACTLY_ONCE)
        with penstock.Consumer(f"kafka://{bootstrap}/lines", group="g", isolation_level="read_committed") as consumer:
            written: list[int] = []
            while len(written) < LINES:
                batch = consumer.poll(WITHIN_S)
                assert batch, f"only {len(written)} lines were written"
                written += [int(record.value or b"-1") for record in batch]
    assert written == list(range(LINES))
