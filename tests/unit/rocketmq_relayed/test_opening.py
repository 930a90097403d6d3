"""What can be said wrong of a cluster that a node stands before, and what the node says to that."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.cli.snode import arguments, snode
from penstock.client import Consumer, Producer
from penstock.errors import ConfigError, UpstreamLost
from penstock.testing import Broker


def test_clients_of_all_protocols_are_served_from_it_side_by_side() -> None:
    with Broker(listen="rocketmq://127.0.0.1:0") as cluster:
        listen = [f"{scheme}://127.0.0.1:0" for scheme in ("rocketmq", "kafka", "tubemq")]
        with Broker(cluster.url("rocketmq"), listen=listen) as snode:
            snode.create_topic("flow")
            for scheme in ("rocketmq", "kafka", "tubemq"):
                with Producer(snode.url(scheme)) as producer:
                    producer.send("flow", scheme.encode(), partition=0).result(20)
            with Consumer(f"{cluster.url('rocketmq')}/flow", auto_offset_reset="earliest") as consumer:
                found: list[bytes | None] = []
                while len(found) < 3:
                    found += [record.value for record in consumer.poll(10)]
            assert found == [b"rocketmq", b"kafka", b"tubemq"]


@pytest.mark.parametrize("url", ["rocketmq://names:9876/topic", "rocketmq://"])
def test_its_address_is_that_of_name_servers_alone(url: str) -> None:
    with pytest.raises(ConfigError, match="names no RocketMQ cluster"):
        Broker(url, listen="rocketmq://127.0.0.1:0").start()


def test_a_cluster_that_is_not_there_is_said_at_the_start() -> None:
    with pytest.raises(UpstreamLost, match=r"cannot ask rocketmq://127\.0\.0\.1:1 for its brokers") as said:
        Broker("rocketmq://127.0.0.1:1", listen="rocketmq://127.0.0.1:0").start()
    assert "name servers" in (said.value.hint or "")


def test_a_node_keeps_its_topics_or_stands_before_a_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    listen = ["--listen", "rocketmq://127.0.0.1:0"]
    for words, says in (
        ([], "no place for topics is given"),
        (["--enode", "rocketmq://127.0.0.1:1", "--store", "memory:"], "no topic lives in rocketmq://127.0.0.1:1"),
        (["--enode", "rocketmq://127.0.0.1:1"], "cannot ask rocketmq://127.0.0.1:1 for its brokers"),
    ):
        with pytest.raises(SystemExit):
            snode([*words, *listen])
        assert says in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ("pull_batch_size=3", "pull_batch_size means nothing in the address of a node's cluster"),
        ("acess_key=k", "no option 'acess_key'"),
        ("access_key=k", "there is access_key, but no secret_key"),
        ("tls_ca_file=/none", "tls_ca_file is set, but tls is not"),
        ("tls=true&tls_ca_file=/none", "cannot be read"),
    ],
)
def test_its_address_may_say_who_asks_and_how_it_is_encrypted_and_nothing_else(options: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        Broker(f"rocketmq://127.0.0.1:1?{options}", listen="rocketmq://127.0.0.1:0").start()


@pytest.mark.parametrize("written", ["access_key=k&secret_key=hush12", "accessKey=k&secretKey=hush12"])
def test_a_secret_in_its_address_is_shown_to_nobody(written: str) -> None:
    with pytest.raises(UpstreamLost) as said:
        Broker(f"rocketmq://127.0.0.1:1?{written}", listen="rocketmq://127.0.0.1:0").start()
    assert "hush12" not in f"{said.value}{said.value.__cause__}"


def test_arguments_may_stand_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "arguments"
    file.write_text("--enode\nrocketmq://names:9876?access_key=k&secret_key=s\n")
    assert arguments().parse_args([f"@{file}"]).enode == ["rocketmq://names:9876?access_key=k&secret_key=s"]
