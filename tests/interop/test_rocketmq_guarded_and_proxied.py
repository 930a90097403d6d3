"""Our RocketMQ clients where brokers want signatures, where connections are encrypted, and through the 5.x Proxy."""

from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path
from urllib.parse import urlencode

import pytest

import penstock
from penstock.client import Admin, Consumer, Producer
from penstock.config import OptionValue
from penstock.errors import PenstockError
from penstock.interfaces import NewTopic
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import RocketMQ
from tools.peers import rocketmq

pytestmark = [pytest.mark.interop, pytest.mark.long]

WITHIN_S = 60.0
COUNT = 100


def everything_works(address: str, topic: str, query: str = "") -> None:
    """Writing, reading ranges, a group that gives something back: its record comes again."""
    with Producer(f"{address}?{query}") as producer:
        for n in range(COUNT):
            producer.send(topic, b"%d" % n)
    # Where a queue ends follows what is stored there a moment later: a broker indexes beside answering.
    comes_to(lambda: penstock.read(f"{address}/{topic}?{query}", ["value"]).num_rows, COUNT, WITHIN_S)
    settings: dict[str, OptionValue] = {"auto_offset_reset": "earliest", "rebalance_ms": 1_000}
    with Consumer(
        f"{address}/{topic}?{query}", group=f"{topic}-readers", enable_auto_commit=False, **settings
    ) as consumer:
        found: list[bytes | None] = []
        gave = False
        deadline = time.monotonic() + WITHIN_S
        while len(found) < COUNT + 1 and time.monotonic() < deadline:
            batch = consumer.poll(0.5)
            found += [record.value for record in batch]
            if batch:
                if not gave:
                    consumer.send_back(batch[:1], delay=1)
                    gave = True
                consumer.commit(batch)
    assert len(found) == COUNT + 1
    assert set(found) == {b"%d" % n for n in range(COUNT)}


def transactions_work(address: str, topic: str, query: str = "") -> None:
    with Producer(f"{address}?{query}", transactional_id=f"{topic}-senders") as producer:
        with producer.transaction():
            for n in range(10):
                producer.send(topic, b"t%d" % n)
        comes_to(lambda: penstock.read(f"{address}/{topic}?{query}", ["value"]).num_rows >= 10, True, WITHIN_S)


@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_brokers_believe_who_signs(version: str, rocketmq_own: RocketMQ) -> None:
    own = rocketmq_own(version, account=("penstock", "12345678"))
    address = f"rocketmq://{own.address}"
    signed = {"access_key": "penstock", "secret_key": "12345678"}
    with Admin(address, **signed) as admin:
        admin.create_topics([NewTopic("flow", 2), NewTopic("whole", 1)])
    everything_works(address, "flow", urlencode(signed))
    transactions_work(address, "whole", urlencode(signed))
    for wrong in ({}, {**signed, "secret_key": "87654321"}):
        with (
            Admin(address, api_timeout_ms=2_000, **wrong) as admin,
            pytest.raises(PenstockError, match=r"(?i)accessKey|signature|username|password"),
        ):
            admin.create_topics([NewTopic("other", 1)])


@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_a_snode_before_them_knows_its_clients_and_they_keep_their_names(version: str, rocketmq_own: RocketMQ) -> None:
    own = rocketmq_own(version, account=("penstock", "12345678"))
    signed = {"access_key": "penstock", "secret_key": "12345678"}
    with Admin(f"rocketmq://{own.address}", **signed) as admin:
        admin.create_topics([NewTopic("flow", 2), NewTopic("whole", 1), NewTopic("more", 1)])
    keys = urlencode(signed)
    cluster = f"rocketmq://{own.address}?{keys}"
    # Whoever reaches this one has the node's rights; at that one clients sign, and go on as themselves.
    with Broker(cluster, listen="rocketmq://127.0.0.1:0") as node:
        everything_works(node.url("rocketmq"), "flow")
    accounts = "penstock:12345678,stranger:12345678"
    with Broker(cluster, listen="rocketmq://127.0.0.1:0", rocketmq_accounts=accounts) as node:
        address = node.url("rocketmq")
        transactions_work(address, "whole", keys)
        everything_works(address, "more", keys)
        # The node knows the stranger, and the brokers do not.
        wrong = {"secret_key": "87654321"}, {"access_key": "nobody"}, {"access_key": "stranger"}
        for each in wrong:
            query = urlencode({**signed, **each})
            with (
                Producer(f"{address}?{query}", delivery_timeout_ms=2_000, request_timeout_ms=1_000) as producer,
                pytest.raises(PenstockError, match=r"(?i)signature|acl|user|permission"),
            ):
                producer.send("more", b"x").result(10)


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
@pytest.mark.parametrize("version", rocketmq.VERSIONS)
def test_connections_are_encrypted(version: str, rocketmq_own: RocketMQ, tmp_path: Path) -> None:
    certificate, key = tmp_path / "certificate.pem", tmp_path / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=127.0.0.1"]
    names = ["-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    own = rocketmq_own(version, tls=(certificate, key))
    own.create_topic("flow", queues=2)
    query = urlencode({"tls": "true", "tls_ca_file": str(certificate)})
    everything_works(f"rocketmq://{own.address}", "flow", query)
    own.create_topic("more", queues=2)
    with Broker(f"rocketmq://{own.address}?{query}", listen="rocketmq://127.0.0.1:0") as node:
        everything_works(node.url("rocketmq"), "more")
    with (
        Admin(f"rocketmq://{own.address}", tls=True, first_contact_timeout_ms=2_000) as admin,
        pytest.raises(PenstockError, match=r"(?i)certificate"),
    ):
        admin.topics()


def test_a_proxy_stands_for_its_brokers(rocketmq_own: RocketMQ) -> None:
    own = rocketmq_own(proxy=True)
    assert own.proxy is not None
    own.create_topic("flow", queues=2)
    own.create_topic("whole", queues=1, kind="TRANSACTION")
    everything_works(f"rocketmq://{own.proxy.endpoint}", "flow")
    # It keeps a transaction's end to itself; the broker asks, and is told.
    transactions_work(f"rocketmq://{own.proxy.endpoint}", "whole")
