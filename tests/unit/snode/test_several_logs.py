"""A node with several logs: topics live where the rules say, and who is away keeps nobody from the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import Admin, Consumer, Producer
from penstock.errors import ConfigError, PenstockError, UpstreamLost
from penstock.interfaces.admin import NewTopic
from penstock.interfaces.enode import Budget, Fetched, FetchPart
from penstock.model import Partition
from penstock.snode import Node
from penstock.testing import Broker
from tests.eventually import comes_to
from tests.unit.kafka_front.kit import batch
from tests.unit.snode.far_logs import Fars, far_clusters

A, B = "far://a:1", "far://b:1"
TOPICS = ("mine", "orders-eu", "orders-us", "pay", "yours")
RULES = ["orders-*=far://a:1", "pay=far://b:1"]
WITHIN_S = 30.0


@pytest.fixture
def fars() -> Iterator[Fars]:
    with far_clusters() as them:
        yield them


@pytest.fixture
def broker(fars: Fars) -> Iterator[Broker]:
    with Broker(enodes=[A, B], topics=RULES, default_partitions=3, initial_rebalance_delay_ms=0) as running:
        yield running


def filled(broker: Broker, count: int = 6) -> list[bytes]:
    """So many records in each topic, over all partitions."""
    sent = []
    with Producer(broker.address) as producer:
        for topic in TOPICS:
            for number in range(count):
                sent.append(f"{topic}/{number}".encode())
                producer.send(topic, sent[-1], partition=number % 3)
        producer.flush(WITHIN_S)
    return sorted(sent)


def read(consumer: Consumer, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        some = consumer.poll(WITHIN_S)
        assert len(some), f"only {len(found)} of {count} came"
        found += [each.value or b"" for each in some]
    return sorted(found)


def test_topics_are_made_and_kept_where_the_rules_say(broker: Broker, fars: Fars) -> None:
    sent = filled(broker)
    with Admin(broker.address) as admin:
        assert {name: len(each.partitions) for name, each in admin.topics().items()} == dict.fromkeys(TOPICS, 3)
    kept = {url: {each.name for each in fars.store(url).topics()} for url in (A, B)}
    assert kept == {A: {"orders-eu", "orders-us"}, B: {"pay"}}
    assert fars.store(A).log("orders-eu", 2).end_offset == 2
    with Consumer(f"{broker.address}/{','.join(TOPICS)}", group="one", auto_offset_reset="earliest") as consumer:
        assert read(consumer, len(sent)) == sent


def test_one_group_reads_topics_of_all_and_goes_on_where_it_was(broker: Broker, fars: Fars) -> None:
    sent = filled(broker)
    address = f"{broker.address}/{','.join(TOPICS)}"
    with Consumer(address, group="one", auto_offset_reset="earliest") as consumer:
        assert read(consumer, len(sent)) == sent
        consumer.commit()
    again = filled(broker, 3)
    with Consumer(address, group="one", auto_offset_reset="earliest") as consumer:
        assert read(consumer, len(again)) == again
    with Admin(broker.address) as admin:
        committed = admin.group_offsets("one")
    assert {each.partition.topic for each in committed} == set(TOPICS)
    assert not [each.name for url in (A, B) for each in fars.store(url).topics() if each.name.startswith("__")]


def test_admins_ask_each_topic_where_it_is(broker: Broker, fars: Fars) -> None:
    with Admin(broker.address) as admin:
        admin.create_topics([NewTopic("orders-eu", 2, config={"retention.ms": "1000"}), NewTopic("mine", 1)])
        admin.add_partitions("orders-eu", 5)
        assert fars.store(A).topic("orders-eu").partitions == 5  # type: ignore[union-attr]
        assert admin.topic_config("orders-eu")["retention.ms"] == "1000"
        with pytest.raises(PenstockError, match="nowhere"):
            admin.topic_config("nowhere")
        admin.delete_topics(["orders-eu", "mine"])
        assert not admin.topics()
    assert not fars.store(A).topics()


def test_what_no_rule_looks_for_is_not_shown_and_said_once(fars: Fars, caplog: pytest.LogCaptureFixture) -> None:
    for name in ("orders-eu", "mine", *(f"other-{number}" for number in range(6))):
        fars.store(A).create_topic(name, 1, {})
    with Broker(enodes=[A, B], topics=RULES) as broker, Admin(broker.address) as admin:
        for _ in range(2):
            assert set(admin.topics()) == {"orders-eu"}
        broker.create_topic("mine")
        assert broker.call(lambda node: node.enode.append(Partition("mine", 0), batch())).base_offset == 0
    told = [each.getMessage() for each in caplog.records if "not shown" in each.getMessage()]
    assert told == [
        "topics of far://a:1 are not shown, for by the rules those of their names live elsewhere (7): mine, other-0, "
        "other-1, other-2, other-3, …"
    ]
    assert fars.store(A).log("mine", 0).end_offset == 0


def test_one_that_is_away_keeps_nobody_from_the_others(broker: Broker, fars: Fars) -> None:
    sent = filled(broker)
    fars.away.add(A)
    rest = [each for each in sent if not each.startswith(b"orders")]
    with Admin(broker.address, request_timeout_ms=2_000) as admin:
        assert set(admin.topics()) == set(TOPICS), "a list says what it knows"
    with Consumer(f"{broker.address}/mine,pay,yours", group="rest", auto_offset_reset="earliest") as consumer:
        assert read(consumer, len(rest)) == rest
    with Consumer(f"{broker.address}/{','.join(TOPICS)}", group="all", auto_offset_reset="earliest") as consumer:
        assert read(consumer, len(rest)) == rest
        fars.away.clear()
        assert read(consumer, len(sent) - len(rest)) == [each for each in sent if each.startswith(b"orders")]


def test_one_that_was_never_reached_is_served_when_it_comes(fars: Fars, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)
    fars.away.add(A)
    fars.store(A).create_topic("orders-eu", 1, {})
    with Broker(enodes=[A, B], topics=RULES) as broker, Admin(broker.address) as admin:
        admin.create_topics([NewTopic("mine"), NewTopic("pay")])
        assert set(admin.topics()) == {"mine", "pay"}
        assert "far://a:1 is away, its topics are refused and all others served" in caplog.text
        fars.away.clear()
        comes_to(lambda: "far://a:1 is back" in caplog.text, True)
        assert set(admin.topics()) == {"mine", "orders-eu", "pay"}


def test_what_is_away_is_asked_now_and_then_and_not_by_everybody(broker: Broker, fars: Fars) -> None:
    filled(broker)
    fars.away.add(A)
    union = broker.node.enode

    async def lost(node: Node) -> None:
        with pytest.raises(UpstreamLost):
            await node.enode.size(Partition("orders-eu", 0))
        assert (await node.enode.topic("orders-eu")).partitions == 3  # type: ignore[union-attr]

    broker.call(lost)
    comes_to(lambda: union.standing()[A], "unreachable got no answer")  # type: ignore[attr-defined]
    asked = fars.refused.count("size"), fars.refused.count("topic")
    for _ in range(5):
        broker.call(lost)
    assert (fars.refused.count("size"), fars.refused.count("topic")) == asked
    assert union.standing() == {"memory:": None, A: "unreachable got no answer", B: None}  # type: ignore[attr-defined]


def test_transactions_are_those_of_the_store_and_never_of_two_logs(broker: Broker, fars: Fars) -> None:
    filled(broker)
    with Producer(broker.address, transactional_id="tx") as producer:
        producer.init_transactions()
        with producer.transaction():
            producer.send("mine", b"in one", partition=0)
            producer.send("yours", b"in one", partition=0)
        before = fars.store(A).log("orders-eu", 0).end_offset
        producer.begin_transaction()
        producer.send("mine", b"never", partition=0)
        with pytest.raises(PenstockError) as refused:
            producer.send("orders-eu", b"refused", partition=0).result(WITHIN_S)
        assert "orders-eu" in str(refused.value)
        producer.abort_transaction()
    assert fars.store(A).log("orders-eu", 0).end_offset == before
    with Consumer(
        f"{broker.address}/mine,orders-eu", group="tx", auto_offset_reset="earliest", isolation_level="read_committed"
    ) as consumer:
        assert b"in one" in read(consumer, 13)


def test_an_id_of_a_producer_is_none_that_a_cluster_gives(broker: Broker, fars: Fars) -> None:
    filled(broker)
    ids = {
        each.producer_id
        for url, topic in ((A, "orders-eu"), (B, "pay"))
        for each in broker.call(lambda node, topic=topic: node.enode.writers(Partition(topic, 0)))  # type: ignore[misc]
    }
    assert ids
    assert min(ids) >= 1 << 62


def test_groups_are_where_the_journals_are_if_no_store_is_there(fars: Fars, tmp_path: Path) -> None:
    given = {"enodes": [B], "topics": ["pay=far://b:1"], "journals": f"file:{tmp_path}", "default_partitions": 3}
    with pytest.raises(ConfigError) as refused, Broker(A, enodes=[B], topics=["pay=far://b:1"]):
        pass
    assert "groups" in refused.value.message
    assert "--journals" in (refused.value.hint or "")
    for _ in range(2):
        with Broker(A, **given) as broker:  # type: ignore[arg-type]
            sent = filled(broker, 3)
            address = f"{broker.address}/{','.join(TOPICS)}"
            with Consumer(address, group="one", auto_offset_reset="earliest") as consumer:
                assert read(consumer, len(sent)) == sent
                consumer.commit()
    assert {each.name for each in fars.store(B).topics()} == {"pay"}
    assert {each.name for each in fars.store(A).topics()} == set(TOPICS) - {"pay"}


def test_without_a_store_groups_are_in_the_first_cluster_that_can_keep_them(fars: Fars) -> None:
    with Broker(A, enodes=["keeper://c:1"], topics=["pay=keeper"], default_partitions=3) as broker:
        filled(broker, 3)
        with Consumer(f"{broker.address}/mine,pay", group="one", auto_offset_reset="earliest") as consumer:
            read(consumer, 6)
            consumer.commit()
    assert {each.name for each in fars.store("keeper://c:1").topics()} >= {"pay", "__penstock_1__consumer_offsets"}
    assert not [each.name for each in fars.store(A).topics() if each.name.startswith("__")]


def test_a_read_over_several_logs_ends_with_its_budget(broker: Broker) -> None:
    filled(broker, 30)
    parts = [FetchPart(Partition(topic, 0), 0, 1 << 20) for topic in TOPICS]

    async def fetched(node: Node, size: int) -> list[object]:
        return list(await node.enode.fetch(parts, Budget(size)))

    found = broker.call(lambda node: fetched(node, 1 << 20))
    assert [len(each.data) > 0 for each in found if isinstance(each, Fetched)] == [True] * 5
    little = broker.call(lambda node: fetched(node, 1))
    assert sum(len(each.data) > 0 for each in little if isinstance(each, Fetched)) == 1


def test_what_is_asked_of_one_log_stays_behind_what_was_asked_of_two(broker: Broker, fars: Fars) -> None:
    """The call for two logs is begun in tasks; the next one, of one of them, must not be quicker."""
    for topic in ("mine", "orders-eu"):
        broker.create_topic(topic)

    async def write(node: Node) -> list[int]:
        one, two = Partition("mine", 0), Partition("orders-eu", 0)
        both = asyncio.ensure_future(node.enode.append_all([(one, batch([b"1"])), (two, batch([b"1"]))]))
        alone = asyncio.ensure_future(node.enode.append_all([(two, batch([b"2"]))]))
        last = asyncio.ensure_future(node.enode.append(two, batch([b"3"])))
        return [(await both)[1].base_offset, (await alone)[0].base_offset, (await last).base_offset]  # type: ignore[union-attr]

    assert broker.call(write) == [0, 1, 2]


def asked_over_http(broker: Broker, path: str) -> tuple[int, str]:
    async def ask(node: Node) -> tuple[int, str]:
        host, _, port = str(node.metrics_url).removeprefix("http://").partition(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(f"GET {path} HTTP/1.1\r\nHost: here\r\n\r\n".encode())
        head, _, body = (await reader.read()).decode().partition("\r\n\r\n")
        writer.close()
        return int(head.split()[1]), body

    return broker.call(ask)


@pytest.fixture
def looked_at_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("penstock.snode.monitoring._FRESH_S", 0.0)


@pytest.mark.usefixtures("looked_at_each_time")
def test_health_and_metrics_tell_who_is_away(fars: Fars) -> None:
    with Broker(enodes=[A, B], topics=RULES, metrics="http://127.0.0.1:0") as broker:
        assert asked_over_http(broker, "/readyz") == (200, "ready\n")
        fars.away.add(A)
        said = "ready\nbut far://a:1 is away: unreachable got no answer\n"
        comes_to(lambda: asked_over_http(broker, "/readyz"), (200, said))
        told = asked_over_http(broker, "/metrics")[1].splitlines()
        assert f'penstock_enode_up{{enode="{A}"}} 0' in told
        assert f'penstock_enode_up{{enode="{B}"}} 1' in told
        assert 'penstock_enode_up{enode="memory:"} 1' in told


@pytest.mark.usefixtures("looked_at_each_time")
def test_without_the_home_of_its_groups_a_node_is_not_ready(fars: Fars) -> None:
    given = {"enodes": ["keeper://c:1"], "topics": ["pay=keeper"], "metrics": "http://127.0.0.1:0"}
    with Broker(A, **given) as broker:  # type: ignore[arg-type]
        fars.away.add("keeper://c:1")
        why = "keeper://c:1 is away: unreachable got no answer\n"
        comes_to(lambda: asked_over_http(broker, "/readyz"), (503, why))


def test_a_python_node_takes_the_same_words(fars: Fars) -> None:
    async def main() -> None:
        listen = ["kafka://127.0.0.1:0"]
        async with Node(store="memory:", enodes=[A], topics=["orders-*=far"], listen=listen) as node:
            assert node.store_url == f"memory:, {A}"
            await node.enode.create_topic("orders-eu", 1, {})
        with pytest.raises(ConfigError, match="no topic lives in"):
            Node(store="memory:", enodes=[A], listen=listen)

    asyncio.run(main())
    assert fars.store(A).topic("orders-eu") is not None


def test_topics_that_a_node_makes_for_groups_are_no_matter_of_rules(fars: Fars) -> None:
    with pytest.raises(ConfigError) as refused, Broker(enodes=[A], topics=["rocketmq.RETRY.*=far"]):
        pass
    assert "makes for groups" in refused.value.message
    rocket = ["kafka://127.0.0.1:0", "rocketmq://127.0.0.1:0"]
    with Broker(enodes=[A], topics=["*=far"], listen=rocket) as broker:
        broker.create_topic("rocketmq.RETRY.readers")
        broker.create_topic("flights")
    assert [each.name for each in fars.store(A).topics()] == ["flights"]
