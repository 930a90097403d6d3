"""The name server, topics, and the broker as operators see it."""

from __future__ import annotations

import json

import pytest

from penstock.errors import ServerError
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.server.dispatch import SNODE_PULL, TABLE, handler
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, command_of, encode
from penstock.protocols.rocketmq.wire.log_records import is_hidden, log_name, rocket_name
from penstock.protocols.rocketmq.wire.rpc import (
    DELETE_TOPIC_IN_BROKER,
    DELETE_TOPIC_IN_NAMESRV,
    GET_ALL_TOPIC_CONFIG,
    GET_ALL_TOPIC_LIST_FROM_NAMESERVER,
    GET_BROKER_CLUSTER_INFO,
    GET_BROKER_CONFIG,
    GET_BROKER_RUNTIME_INFO,
    GET_EARLIEST_MSG_STORETIME,
    GET_MAX_OFFSET,
    GET_MIN_OFFSET,
    GET_ROUTEINFO_BY_TOPIC,
    GET_TOPIC_CONFIG,
    GET_TOPIC_STATS_INFO,
    GET_TOPICS_BY_CLUSTER,
    METHODS,
    SEARCH_OFFSET_BY_TIMESTAMP,
    UPDATE_AND_CREATE_TOPIC,
)
from tests.unit.rocketmq_front.kit import BROKER, Kit, run

NO = m.NoFields()


async def make(kit: Kit, name: str, queues: int) -> None:
    await kit.ask(UPDATE_AND_CREATE_TOPIC, m.CreateTopic(topic=name, read_queue_nums=queues, write_queue_nums=queues))


async def names(kit: Kit) -> list[str]:
    answer = await kit.ask(GET_ALL_TOPIC_LIST_FROM_NAMESERVER, NO)
    return sorted(m.read_body(m.TopicList, answer.body).topic_list)


def test_every_row_has_a_method_and_a_handler() -> None:
    assert TABLE.keys() <= METHODS.keys()
    assert all(callable(handler(name)) for name in (*TABLE.values(), SNODE_PULL))


def test_every_queue_of_a_topic_is_at_the_one_broker() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.ask(GET_ROUTEINFO_BY_TOPIC, m.GetRoute(topic="demo"))
        found = m.read_body(m.Route, answer.body)
        assert found.broker_datas == (
            m.BrokerData(
                cluster="DefaultCluster",
                broker_name=BROKER,
                broker_addrs={0: "127.0.0.1:9876"},
                enable_acting_master=False,
            ),
        )
        assert found.queue_datas == (m.QueueData(broker_name=BROKER, read_queue_nums=2, write_queue_nums=2, perm=6),)

    run(check)


@pytest.mark.lossless("asked once")
@pytest.mark.parametrize(("version", "asks", "standard"), [(121, False, False), (121, True, True), (493, False, True)])
def test_old_clients_are_told_numbers_as_keys(version: int, asks: bool, standard: bool) -> None:
    async def check(kit: Kit) -> None:
        fields = {"topic": "demo", **({"acceptStandardJsonOnly": "true"} if asks else {})}
        answer = await kit.send(b"".join(encode(RemotingCommand(105, 1, fields=fields, version=version))))
        assert answer is not None
        body = bytes(command_of(answer).body)
        assert (b'{"0":"127.0.0.1:9876"}' in body, b'{0:"127.0.0.1:9876"}' in body) == (standard, not standard)
        assert not standard or json.loads(body)

    run(check)


@pytest.mark.parametrize("makes", [True, False])
def test_the_template_is_there_where_topics_are_made(makes: bool) -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.ask(GET_ROUTEINFO_BY_TOPIC, m.GetRoute(topic="TBW102"), accept=(0, Code.TOPIC_NOT_EXIST))
        assert (answer.code == 0) is makes

    run(check, RocketFrontOptions(auto_create_topics=makes))


def test_the_cluster_is_this_node() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.ask(GET_BROKER_CLUSTER_INFO, NO)
        found = m.read_body(m.ClusterInfo, answer.body)
        assert (list(found.broker_addr_table), found.cluster_addr_table) == ([BROKER], {"DefaultCluster": (BROKER,)})
        answer = await kit.ask(GET_TOPICS_BY_CLUSTER, m.OfCluster(cluster="DefaultCluster"))
        assert m.read_body(m.TopicList, answer.body).topic_list == ("demo",)
        answer = await kit.ask(GET_TOPICS_BY_CLUSTER, m.OfCluster(cluster="other"))
        assert m.read_body(m.TopicList, answer.body).topic_list == ()

    run(check)


def test_topics_are_made_grown_and_deleted() -> None:
    async def check(kit: Kit) -> None:
        await make(kit, "made", 3)
        await make(kit, "made", 5)
        answer = await kit.ask(GET_TOPIC_CONFIG, m.OfTopic(topic="made"))
        assert m.read_body(m.TopicConfig, answer.body).write_queue_nums == 5
        assert await names(kit) == ["demo", "made"]
        answer = await kit.ask(GET_ALL_TOPIC_CONFIG, NO)
        assert m.read_body(m.TopicConfigs, answer.body).topic_config_table.keys() == {"demo", "made"}
        for _ in range(2):
            await kit.ask(DELETE_TOPIC_IN_BROKER, m.OfTopic(topic="made"))
        await kit.ask(DELETE_TOPIC_IN_NAMESRV, m.OfTopic(topic="made"))
        assert await names(kit) == ["demo"]

    run(check)


@pytest.mark.parametrize(
    ("name", "queues"), [("a b", 1), ("SELF_TEST_TOPIC", 1), ("x" * 128, 1), ("none", 0), ("a|b", 1)]
)
def test_what_cannot_be_a_topic_is_refused(name: str, queues: int) -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError):
            await make(kit, name, queues)
        assert await names(kit) == ["demo"]

    run(check)


def test_where_queues_stand_and_what_is_of_which_time() -> None:
    async def search(kit: Kit, time_ms: int, kind: str | None = None) -> int:
        header = m.SearchOffset(topic="demo", queue_id=0, timestamp=time_ms, boundary_type=kind)
        return (await kit.ask(SEARCH_OFFSET_BY_TIMESTAMP, header)).header.offset

    async def check(kit: Kit) -> None:
        here, empty = m.OfQueue(topic="demo", queue_id=0), m.OfQueue(topic="demo", queue_id=1)
        assert (await kit.ask(GET_EARLIEST_MSG_STORETIME, here)).header.timestamp == -1
        for row in range(4):
            await kit.put(b"x", properties=f"penstock.timestamp\x01{1_000 * (row + 1)}")
        kit.store.log("demo", 0).delete_records(1)
        assert (await kit.ask(GET_MAX_OFFSET, here)).header.offset == 4
        assert (await kit.ask(GET_MIN_OFFSET, here)).header.offset == 1
        assert (await kit.ask(GET_MAX_OFFSET, empty)).header.offset == 0
        assert (await kit.ask(GET_MAX_OFFSET, m.OfQueue(topic="nosuch", queue_id=0))).header.offset == 0
        assert (await kit.ask(GET_EARLIEST_MSG_STORETIME, here)).header.timestamp == 2_000
        assert [await search(kit, each) for each in (0, 2_000, 2_500, 4_000, 9_999)] == [1, 1, 2, 3, 4]
        assert [await search(kit, each, "UPPER") for each in (2_500, 4_000, 9_999)] == [1, 3, 3]
        answer = await kit.ask(GET_TOPIC_STATS_INFO, m.OfTopic(topic="demo"))
        table = m.read_body(m.TopicStats, answer.body).offset_table
        found = {
            queue.queue_id: (each.min_offset, each.max_offset, each.last_update_timestamp)
            for queue, each in table.items()
        }
        assert found == {0: (1, 4, 4_000), 1: (0, 0, 0)}

    run(check)


def test_how_the_broker_is() -> None:
    async def check(kit: Kit) -> None:
        answer = await kit.ask(GET_BROKER_RUNTIME_INFO, NO)
        assert m.read_body(m.Table, answer.body).table["topicNum"] == "1"
        answer = await kit.ask(GET_BROKER_CONFIG, NO)
        assert b"brokerName=penstock-1\n" in bytes(answer.body)

    run(check)


@pytest.mark.parametrize(
    ("command", "code", "says"),
    [
        (RemotingCommand(103, 5), 3, "not supported"),
        (RemotingCommand(11, 5), 1, "consumerGroup"),
        (RemotingCommand(34, 5, body=b"{"), 1, "JSON"),
        (RemotingCommand(30, 5, fields={"topic": "demo", "queueId": "x"}, compact=True), 1, "queueId"),
    ],
)
def test_what_cannot_be_done_is_answered_and_the_next_request_too(
    command: RemotingCommand, code: int, says: str
) -> None:
    async def check(kit: Kit) -> None:
        for _ in range(2):
            answer = await kit.send(b"".join(encode(command)))
            assert answer is not None
            said = command_of(answer)
            assert (said.code, said.opaque, said.compact) == (code, 5, command.compact)
            assert says in (said.remark or "")

    run(check)


def test_answers_to_what_was_pushed_are_taken_in_silence() -> None:
    async def check(kit: Kit) -> None:
        assert await kit.send(b"".join(encode(RemotingCommand(0, 5, 1)))) is None

    run(check)


@pytest.mark.parametrize(
    ("topic", "name"),
    [("%RETRY%g", "rocketmq.RETRY.g"), ("%DLQ%n%g", "rocketmq.DLQ.n.g"), ("n%t", "rocketmq-ns.n.t"), ("a.b", "a.b")],
)
def test_names_go_there_and_back(topic: str, name: str) -> None:
    assert (log_name(topic), rocket_name(name)) == (name, topic)
    assert not is_hidden(name)


def test_names_that_could_not_come_back_are_refused() -> None:
    for topic in ("%a.b", "a%b|c"):
        with pytest.raises(Refused):
            log_name(topic)
