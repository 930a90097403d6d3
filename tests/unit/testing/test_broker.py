"""The broker in a test's process: it starts, dies, comes back where it was, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import socket
import threading
from pathlib import Path

import pytest

from penstock.client import Admin, Consumer, Producer
from penstock.errors import ConfigError, StoreError, UsageError
from penstock.model import Partition
from penstock.snode import Node
from penstock.testing import Broker


def values(broker: Broker) -> list[bytes | None]:
    with Consumer(f"{broker.address}/t") as consumer:
        end = consumer.end_offsets([Partition("t", 0)])[Partition("t", 0)]
        found: list[bytes | None] = []
        while len(found) < end:
            found += [record.value for record in consumer.poll(10)]
        return found


def send(broker: Broker, *contents: bytes) -> None:
    with Producer(broker.address) as producer:
        for content in contents:
            producer.send("t", content).result(30)


def broker_threads() -> set[threading.Thread]:
    """Those of all brokers in this process; other tests may have one that lives longer than a test."""
    return {thread for thread in threading.enumerate() if thread.name.startswith("penstock broker")}


def open_files() -> int:
    """Descriptors of this process; 0 where the system does not say."""
    folder = Path("/proc/self/fd")
    return len(list(folder.iterdir())) if folder.is_dir() else 0


def test_it_speaks_the_protocol_on_a_port_of_its_own() -> None:
    with Broker() as one, Broker() as other:
        assert one.address == f"kafka://{one.bootstrap}" == one.url("kafka")
        assert one.bootstrap.startswith("127.0.0.1:")
        assert one.bootstrap != other.bootstrap
        one.create_topic("t", partitions=3, config={"retention.ms": "1000"})
        with Admin(one.address) as admin:
            assert len(admin.topics()["t"].partitions) == 3
            assert admin.topic_config("t")["retention.ms"] == "1000"
        one.delete_topic("t")
        with Admin(one.address) as admin:
            assert admin.topics() == {}


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_files_outlive_their_broker_and_the_port_stays(tmp_path: Path, end: str) -> None:
    with Broker(f"file:{tmp_path / 'log'}") as broker:
        address = broker.address
        broker.create_topic("t")
        send(broker, b"1", b"2")
        getattr(broker, end)()
        broker.restart()
        assert broker.address == address
        assert values(broker) == [b"1", b"2"]


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_memory_does_not(end: str) -> None:
    with Broker() as broker:
        broker.create_topic("t")
        send(broker, b"1")
        getattr(broker, end)()
        broker.start()
        with Admin(broker.address) as admin:
            assert admin.topics() == {}


def test_a_client_lives_through_a_kill(tmp_path: Path) -> None:
    with Broker(f"file:{tmp_path / 'log'}") as broker, Producer(broker.address) as producer:
        broker.create_topic("t")
        producer.send("t", b"1").result(30)
        broker.kill()
        late = producer.send("t", b"2")
        broker.restart()
        assert late.result(30).offset == 1
        assert values(broker) == [b"1", b"2"]


def test_a_restart_of_a_running_broker_is_a_stop_and_a_start(tmp_path: Path) -> None:
    with Broker(f"file:{tmp_path / 'log'}") as broker:
        broker.create_topic("t")
        send(broker, b"1")
        broker.restart()
        send(broker, b"2")
        assert values(broker) == [b"1", b"2"]


def test_nobody_listens_while_it_is_down() -> None:
    with Broker() as broker:
        host, port = broker.bootstrap.split(":")
        broker.kill()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)))
        with pytest.raises(UsageError, match="not running"):
            broker.stop()
        with pytest.raises(UsageError, match="not running"):
            broker.create_topic("t")


def test_a_broker_is_not_started_twice() -> None:
    with Broker() as broker, pytest.raises(UsageError, match="running already"):
        broker.start()


def test_nothing_is_known_of_a_broker_that_was_never_started() -> None:
    with pytest.raises(UsageError, match="nothing listens for kafka"):
        _ = Broker().address
    with pytest.raises(UsageError, match="nothing listens for rocketmq"), Broker() as broker:
        broker.url("rocketmq")


def test_threads_and_descriptors_end_with_it(tmp_path: Path) -> None:
    """In a process of its own: nothing else opens or closes a descriptor there."""
    alone = multiprocessing.get_context("spawn").Process(target=start_and_end_thrice, args=(tmp_path / "log",))
    alone.start()
    alone.join()
    assert alone.exitcode == 0


def start_and_end_thrice(folder: Path) -> None:
    with Broker():  # whatever a first start opens for good is open now
        pass
    before = open_files()
    for end in ("stop", "kill", "stop"):
        broker = Broker(f"file:{folder}")
        broker.start()
        assert len(broker_threads()) == 1
        with Admin(broker.address) as admin:
            admin.topics()
        getattr(broker, end)()
        assert not broker_threads()
    assert open_files() == before


def test_a_start_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    before = broker_threads()
    with Broker(f"file:{folder}") as broker:
        second = Broker(f"file:{folder}")
        with pytest.raises(StoreError, match=str(os.getpid())):
            second.start()
        third = Broker(listen=broker.address)
        with pytest.raises(ConfigError, match="cannot listen"):
            third.start()
        assert len(broker_threads() - before) == 1
    second.start()
    second.stop()
    with pytest.raises(ConfigError, match="no option"):
        Broker(flushh="os").start()
    assert broker_threads() == before


def test_options_are_those_of_a_node() -> None:
    with Broker(default_partitions=7) as broker:
        with Admin(broker.address) as admin:
            from penstock.interfaces import NewTopic

            admin.create_topics([NewTopic("t", -1)])
            assert len(admin.topics()["t"].partitions) == 7
        assert broker.node.config.default_partitions == 7


def test_a_store_on_files_has_a_folder(tmp_path: Path) -> None:
    assert Broker(f"file:{tmp_path}").store_folder == tmp_path
    with pytest.raises(UsageError, match="no folder"):
        _ = Broker().store_folder


def test_what_goes_wrong_in_its_loop_comes_out_in_the_test() -> None:
    async def careless(node: Node) -> None:
        raise LookupError(type(node).__name__)

    with Broker() as broker, pytest.raises(LookupError, match="Node"):
        broker.call(careless)


@pytest.mark.parametrize("end", ["stop", "abort"])
def test_a_node_that_ended_has_no_task_left(end: str, tmp_path: Path) -> None:
    async def main() -> None:
        node = Node(store=f"file:{tmp_path}", listen=["kafka://127.0.0.1:0"])
        await node.start()
        address = node.url("kafka")

        def use() -> None:
            with Consumer(f"{address}/t", group="g") as consumer, Producer(address) as producer:
                producer.send("t", b"1").result(30)
                assert len(consumer.poll(30)) == 1

        await node.enode.create_topic("t", 1, {})
        await asyncio.to_thread(use)
        await getattr(node, end)()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    asyncio.run(main())


def test_each_protocol_has_an_address_of_its_own_over_one_log(tmp_path: Path) -> None:
    with Broker(f"file:{tmp_path}", listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as broker:
        before = broker.url("kafka"), broker.url("tubemq")
        broker.create_topic("both")
        with Producer(broker.url("tubemq")) as producer:
            producer.send("both", b"through the other door").result()
        broker.restart()
        assert (broker.url("kafka"), broker.url("tubemq")) == before
        with Consumer(f"{broker.address}/both", auto_offset_reset="earliest") as consumer:
            assert [record.value for record in consumer.poll(30)] == [b"through the other door"]
        with pytest.raises(UsageError, match="nothing listens for rocketmq"):
            broker.url("rocketmq")
    with Broker(listen="tubemq://127.0.0.1:0") as other, pytest.raises(UsageError, match="nothing listens for kafka"):
        assert other.address


def test_faults_in_kafka_s_words_leave_other_protocols_alone() -> None:
    with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as broker:
        broker.create_topic("both")
        broker.faults.drop("", times=None)
        with Producer(broker.url("tubemq")) as producer:
            producer.send("both", b"unharmed").result()
        assert broker.faults.seen("") == 0
