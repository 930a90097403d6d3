"""Kafka's own TransactionalMessageCopier against our node: what it read, wrote and committed is each record once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from penstock.client import Admin, Producer, RangeReader
from penstock.interfaces import NewTopic
from penstock.model import LogRange, Partition
from penstock.testing import NodeProcess
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = pytest.mark.interop

RECORDS = 3_000
_COPIER = "org.apache.kafka.tools.TransactionalMessageCopier"


def copier(bootstrap: str, version: str) -> list[str]:
    line = [
        "--broker-list", bootstrap, "--input-topic", "in", "--input-partition", "0", "--output-topic", "out",
        "--consumer-group", "copier", "--transactional-id", "copier", "--transaction-size", "50",
        "--group-mode", "--use-group-metadata", "--enable-random-aborts",
    ]  # fmt: skip
    try:
        return kafka.tool_command(_COPIER, line, version=version)
    except Unavailable as reason:
        pytest.skip(f"no Kafka tools {version}: {reason}")


def values(address: str, topic: str) -> list[int]:
    with RangeReader(address, isolation_level="read_committed") as reader:
        end = reader.end_offsets([Partition(topic, 0)])[Partition(topic, 0)]
        return [int(each.value or b"-1") for batch in reader.read(LogRange(topic, 0, 0, end)) for each in batch]


@pytest.mark.parametrize("kills", [frozenset(), frozenset({5, 20})], ids=["undisturbed", "killed"])
@pytest.mark.parametrize("version", kafka.VERSIONS)
def test_each_record_is_copied_once(tmp_path: Path, version: str, kills: frozenset[int]) -> None:
    with NodeProcess(tmp_path / "store") as node:
        with Admin(node.address) as admin:
            admin.create_topics([NewTopic("in", 1), NewTopic("out", 1)])
        with Producer(node.address) as producer:
            for number in range(RECORDS):
                producer.send("in", b"%d" % number)
        with subprocess.Popen(
            copier(node.bootstrap, version), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        ) as process:
            assert process.stdout is not None
            told = 0
            for line in process.stdout:
                told += '"ProcessLoop"' in line  # one a transaction, and one before
                if told in kills:
                    kills = kills - {told}
                    node.kill()
                    node.start()
            process.wait(60)
        copied = values(node.address, "out")
        with Admin(node.address) as admin:
            committed = admin.committed("copier")[Partition("in", 0)].offset
    assert (sorted(copied), committed) == (list(range(RECORDS)), RECORDS)
    assert not kills, f"only {told} transactions were told of"
    assert process.returncode == 0
