"""What Kafka's own tools ask of a cluster of one node, and read in the answers of ours (`test_admin_answers`)."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.client import Producer
from penstock.testing import Broker
from tools.peers import kafka

pytestmark = pytest.mark.interop

Tools = Callable[..., str]
VERSIONS = pytest.mark.parametrize("version", kafka.VERSIONS)


@VERSIONS
def test_javas_tools_see_where_logs_lie_and_who_leads(broker: Broker, kafka_tools: Tools, version: str) -> None:
    at = {"bootstrap": broker.bootstrap, "version": version}
    broker.create_topic("t", 2)
    with Producer(broker.address) as producer:
        producer.send("t", value=b"x" * 1_000, partition=1).result()

    shown = kafka_tools("log-dirs", "--describe", "--topic-list", "t", "--broker-list", "1", **at)
    told = json.loads(next(line for line in shown.splitlines() if line.startswith("{")))
    (folder,) = told["brokers"][0]["logDirs"]
    size = sum(file.stat().st_size for file in (broker.store_folder / "t-1").glob("*.log"))
    assert (folder["error"], folder["logDir"]) == (None, str(broker.store_folder.absolute()))
    assert {row["partition"]: row["size"] for row in folder["partitions"]} == {"t-0": 0, "t-1": size}
    assert size > 1_000

    status = kafka_tools("metadata-quorum", "describe", "--status", **at)
    assert re.search(r"LeaderId: +1\n", status)
    elected = kafka_tools("leader-election", "--election-type", "preferred", "--all-topic-partitions", **at)
    assert "Error" not in elected


@VERSIONS
def test_javas_tools_see_that_nothing_is_moved(
    broker: Broker, kafka_tools: Tools, version: str, tmp_path: Path
) -> None:
    at = {"bootstrap": broker.bootstrap, "version": version}
    broker.create_topic("t", 2)
    plan = tmp_path / "plan.json"
    moves = [{"topic": "t", "partition": number, "replicas": [1], "log_dirs": ["any"]} for number in range(2)]
    plan.write_text(json.dumps({"version": 1, "partitions": moves}))
    assert "No partition reassignments found." in kafka_tools("reassign-partitions", "--list", **at)
    file = ("--reassignment-json-file", str(plan))
    verified = kafka_tools("reassign-partitions", "--verify", "--preserve-throttles", *file, **at)
    assert [f"Reassignment of partition t-{number} is completed." in verified for number in range(2)] == [True, True]
    executed = kafka_tools("reassign-partitions", "--execute", *file, **at)
    assert "Successfully started partition reassignments for t-0,t-1" in executed


@VERSIONS
def test_javas_tools_describe_what_is_no_topic(broker: Broker, kafka_tools: Tools, version: str) -> None:
    at = {"bootstrap": broker.bootstrap, "version": version}
    node = ("--entity-type", "brokers", "--entity-name", "1")
    shown = kafka_tools("configs", "--describe", "--all", *node, **at)
    assert "log.retention.hours=168 sensitive=false synonyms={DEFAULT_CONFIG:log.retention.hours=168}" in shown
    assert f"log.dirs={broker.store_folder.absolute()} " in shown
    with pytest.raises(subprocess.CalledProcessError) as refused:
        kafka_tools("configs", "--alter", "--add-config", "num.partitions=3", *node, **at)
    said = f"{refused.value.stdout}{refused.value.stderr}"
    assert "Cannot update these configs dynamically: [num.partitions]" in said
    every = ("--entity-type", "brokers", "--entity-default")
    kafka_tools("configs", "--alter", "--add-config", "log.retention.ms=5,message.max.bytes=10", *every, **at)
    shown = kafka_tools("configs", "--describe", *every, **at)
    assert "log.retention.ms=5 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=5" in shown
    broker.kill()
    broker.restart()
    kafka_tools("configs", "--alter", "--delete-config", "log.retention.ms", *every, **at)
    shown = kafka_tools("configs", "--describe", *every, **at)
    assert ("log.retention.ms" in shown, "message.max.bytes=10 " in shown) == (False, True)
    kinds = [("--entity-type", "users"), ("--entity-type", "clients"), ("--entity-type", "client-metrics")]
    if version == kafka.NEWEST:
        group = ("--entity-type", "groups", "--entity-name", "g")
        assert "consumer.session.timeout.ms=45000" in kafka_tools("configs", "--describe", "--all", *group, **at)
        kafka_tools("configs", "--alter", "--add-config", "consumer.session.timeout.ms=50000", *group, **at)
        broker.kill()
        broker.restart()
        assert "consumer.session.timeout.ms=50000" in kafka_tools("configs", "--describe", *group, **at)
    for kind in kinds:
        assert "rror" not in kafka_tools("configs", "--describe", *kind, **at)
