"""Clients in groups: who is there, who is told, whose queues are locked, where groups stand."""

from __future__ import annotations

import pytest

from penstock.errors import ServerError
from penstock.model import Committed, Partition
from penstock.protocols.rocketmq.errors import Code, Refused
from penstock.protocols.rocketmq.server.clients import Who
from penstock.protocols.rocketmq.server.cluster import RocketFrontOptions
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import (
    CHECK_CLIENT_CONFIG,
    DELETE_SUBSCRIPTIONGROUP,
    GET_ALL_CONSUMER_OFFSET,
    GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    GET_CONSUME_STATS,
    GET_CONSUMER_CONNECTION_LIST,
    GET_CONSUMER_LIST_BY_GROUP,
    GET_PRODUCER_CONNECTION_LIST,
    GET_SUBSCRIPTIONGROUP_CONFIG,
    INVOKE_BROKER_TO_RESET_OFFSET,
    LOCK_BATCH_MQ,
    NOTIFY_CONSUMER_IDS_CHANGED,
    QUERY_CONSUMER_OFFSET,
    QUERY_TOPIC_CONSUME_BY_WHO,
    RESET_CONSUMER_CLIENT_OFFSET,
    UNLOCK_BATCH_MQ,
    UNREGISTER_CLIENT,
    UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    UPDATE_CONSUMER_OFFSET,
)
from penstock.snode.committed_offsets import kept_offsets
from tests.unit.rocketmq_front.kit import BROKER, Client, Kit, run, serving

NOTICE = NOTIFY_CONSUMER_IDS_CHANGED.code
NO = m.NoFields()


async def members(client: Client, group: str = "g") -> list[str]:
    answer = await client.ask(GET_CONSUMER_LIST_BY_GROUP, m.OfGroup(consumer_group=group), accept=(0, 1))
    return list(m.read_body(m.ConsumerIds, answer.body).consumer_id_list) if answer.code == 0 else []


async def commit(client: Client, offset: int, *, topic: str = "demo", queue: int = 0, group: str = "g") -> None:
    header = m.UpdateConsumerOffset(consumer_group=group, topic=topic, queue_id=queue, commit_offset=offset)
    await client.ask(UPDATE_CONSUMER_OFFSET, header)


async def committed(client: Client, *, topic: str = "demo", zero: bool | None = None) -> int | None:
    header = m.QueryConsumerOffset(consumer_group="g", topic=topic, queue_id=0, set_zero_if_not_found=zero)
    try:
        return (await client.ask(QUERY_CONSUMER_OFFSET, header)).header.offset
    except ServerError as error:
        return None if error.code == Code.QUERY_NOT_FOUND else error.code


def test_all_of_a_group_are_told_when_one_comes_and_when_one_goes() -> None:
    async def check(kit: Kit) -> None:
        other = kit.client()
        await kit.beat("demo")
        assert len(kit.told(NOTICE)) == 1
        await other.beat("demo")
        assert (len(kit.told(NOTICE)), len(other.told(NOTICE))) == (2, 1)
        assert await members(kit) == ["first", "second"]
        other.session.lost()
        assert len(kit.told(NOTICE)) == 3
        assert await members(kit) == ["first"]

    run(check)


def test_an_offset_for_which_there_is_no_room_is_refused_as_busy_and_known_ones_move_on() -> None:
    async def check(kit: Kit) -> None:
        kit.offsets._kept = kept_offsets(1)
        await commit(kit, 3)
        with pytest.raises(
            ServerError, match=r"1 committed offsets, more are not taken \(max_committed_offsets\)"
        ) as no:
            await commit(kit, 3, group="other")
        assert no.value.code == Code.SYSTEM_BUSY
        await commit(kit, 5)
        assert await committed(kit) == 5
        await commit(kit, -1)  # takes it away
        await commit(kit, 3, group="other")

    run(check)


def test_a_beat_that_changes_nothing_is_told_to_nobody() -> None:
    async def check(kit: Kit) -> None:
        await kit.beat("demo")
        await kit.beat("demo", version=9)
        assert len(kit.told(NOTICE)) == 1
        await kit.beat("demo", "more")
        assert len(kit.told(NOTICE)) == 2

    run(check)


def test_who_says_goodbye_is_out_of_that_group_only() -> None:
    async def check(kit: Kit) -> None:
        await kit.beat("demo")
        await kit.beat("demo", group="h", producer="p")
        await kit.ask(UNREGISTER_CLIENT, m.UnregisterClient(client_id="first", consumer_group="g"))
        assert (await members(kit), await members(kit, "h")) == ([], ["first"])
        answer = await kit.ask(GET_PRODUCER_CONNECTION_LIST, m.OfProducers(producer_group="p"))
        assert [each.client_id for each in m.read_body(m.ConsumerConnection, answer.body).connection_set] == ["first"]
        await kit.ask(UNREGISTER_CLIENT, m.UnregisterClient(client_id="first", producer_group="p"))
        with pytest.raises(ServerError, match="not exist"):
            await kit.ask(GET_PRODUCER_CONNECTION_LIST, m.OfProducers(producer_group="p"))

    run(check)


def test_who_is_silent_for_too_long_is_out_and_to_be_hung_up_on() -> None:
    async def check(kit: Kit) -> None:
        clients, who = kit.front.shared.clients, Who("first", "JAVA", 409)
        other = kit.client()
        clients.produce(kit.session.line, who, "p", 100.0)
        clients.consume(other.session.line, Who("second", "JAVA", 409), m.ConsumerData(group_name="g"), 0.0)
        assert clients.expire(120.0) == []
        assert clients.expire(121.0) == [other.session.line]
        assert (list(clients.consumers), list(clients.producers)) == ([], ["p"])

    run(check)


def test_clients_beyond_the_limit_are_refused_and_who_goes_makes_room() -> None:
    async def check(kit: Kit) -> None:
        other = kit.client()
        await kit.beat("demo")
        clients = kit.front.shared.clients
        who = Who("second", "JAVA", 409)
        with pytest.raises(Refused):
            clients.produce(other.session.line, who, "p", 0.0)
        kit.session.lost()
        assert (clients.consumers, clients.producers) == ({}, {})
        await other.beat("demo")
        assert await members(other) == ["second"]

    run(check, RocketFrontOptions(max_clients=1))


def test_a_group_that_reads_its_retry_topic_has_one() -> None:
    async def check(kit: Kit) -> None:
        await kit.beat("demo", "%RETRY%g")
        found = await kit.enode.topic("rocketmq.RETRY.g")
        assert found is not None
        assert found.partitions == 1

    run(check)


def test_what_a_group_is_like_is_told() -> None:
    async def check(kit: Kit) -> None:
        with pytest.raises(ServerError) as nobody:
            await kit.ask(GET_CONSUMER_CONNECTION_LIST, m.OfGroup(consumer_group="g"))
        assert nobody.value.code == Code.CONSUMER_NOT_ONLINE
        await kit.beat("demo")
        answer = await kit.ask(GET_CONSUMER_CONNECTION_LIST, m.OfGroup(consumer_group="g"))
        found = m.read_body(m.ConsumerConnection, answer.body)
        assert [(each.client_id, each.client_addr) for each in found.connection_set] == [("first", "127.0.0.1:50000")]
        assert found.subscription_table.keys() == {"demo"}
        assert (found.consume_type, found.message_model) == ("CONSUME_PASSIVELY", "CLUSTERING")

    run(check)


def test_a_queue_is_locked_for_one_client_until_it_gives_it_back_or_time_is_over() -> None:
    queues = tuple(m.MessageQueue(topic="demo", broker_name=BROKER, queue_id=number) for number in range(2))

    async def locked(client: Client) -> list[int]:
        body = m.LockQueues(consumer_group="g", client_id=client.name, mq_set=queues)
        answer = await client.ask(LOCK_BATCH_MQ, m.Routed(), body)
        return [each.queue_id for each in m.read_body(m.LockedQueues, answer.body).lock_ok_mq_set]

    async def check(kit: Kit) -> None:
        other = kit.client()
        assert await locked(kit) == [0, 1]
        assert (await locked(other), await locked(kit)) == ([], [0, 1])
        body = m.LockQueues(consumer_group="g", client_id="second", mq_set=queues)
        await other.ask(UNLOCK_BATCH_MQ, m.Routed(), body)
        assert await locked(other) == []
        await kit.ask(
            UNLOCK_BATCH_MQ, m.Routed(), m.LockQueues(consumer_group="g", client_id="first", mq_set=queues[:1])
        )
        assert await locked(other) == [0]
        kit.front.shared.queue_locks.expire(kit.runtime.monotonic() + 61)
        assert await locked(kit) == [0, 1]

    run(check)


def test_a_group_stands_where_it_said_also_for_other_protocols() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"x")
        await commit(kit, 7)
        assert await committed(kit) == 7
        await commit(kit, 3)
        assert {each.offset for each in (await kit.offsets.committed("g")).values()} == {3}
        await kit.offsets.commit("g", {Partition("demo", 0): Committed(1)})
        assert await committed(kit) == 1
        answer = await kit.ask(GET_ALL_CONSUMER_OFFSET, NO)
        assert m.read_body(m.ConsumerOffsets, answer.body).offset_table == {"demo@g": {0: 1}}

    run(check)


def test_a_group_that_stands_nowhere_begins_at_the_first_message_while_that_is_there() -> None:
    async def check(kit: Kit) -> None:
        for _ in range(3):
            await kit.put(b"x")
        assert (await committed(kit), await committed(kit, zero=False)) == (0, None)
        kit.store.log("demo", 0).delete_records(2)
        assert (await committed(kit), await committed(kit, topic="nosuch")) == (None, None)

    run(check)


def test_offsets_of_queues_that_are_not_there_are_refused() -> None:
    async def check(kit: Kit) -> None:
        for topic, queue, offset in (("nosuch", 0, 1), ("demo", 5, 1), ("demo", 0, -2)):
            with pytest.raises(ServerError):
                await commit(kit, offset, topic=topic, queue=queue)

    run(check)


def test_how_far_a_group_is() -> None:
    async def check(kit: Kit) -> None:
        for _ in range(3):
            await kit.put(b"x")
        await commit(kit, 1)
        answer = await kit.ask(GET_CONSUME_STATS, m.StatsOfGroup(consumer_group="g"))
        table = m.read_body(m.ConsumeStats, answer.body).offset_table
        assert {queue.queue_id: (each.broker_offset, each.consumer_offset) for queue, each in table.items()} == {
            0: (3, 1), 1: (0, 0),
        }  # fmt: skip
        answer = await kit.ask(QUERY_TOPIC_CONSUME_BY_WHO, m.OfTopic(topic="demo"))
        assert m.read_body(m.Groups, answer.body).group_list == ("g",)

    run(check)


def test_a_group_is_set_back_and_its_members_are_told() -> None:
    async def check(kit: Kit) -> None:
        for row in range(4):
            await kit.put(b"x", properties=f"penstock.timestamp\x01{1_000 * (row + 1)}")
        await kit.beat("demo")
        await commit(kit, 4)
        header = m.ResetOffsetsOfGroup(topic="demo", group="g", timestamp=2_500, is_force=False)
        answer = await kit.ask(INVOKE_BROKER_TO_RESET_OFFSET, header)
        table = m.read_body(m.ResetOffset, answer.body).offset_table
        assert {queue.queue_id: offset for queue, offset in table.items()} == {0: 2, 1: 0}
        assert await committed(kit) == 2
        (told,) = kit.told(RESET_CONSUMER_CLIENT_OFFSET.code)
        assert m.read_body(m.ResetOffset, told.body).offset_table == table

    run(check)


@pytest.mark.near  # a second front over the same log
def test_settings_of_groups_are_kept_and_forgotten() -> None:
    async def check(kit: Kit) -> None:
        body = m.SubscriptionGroupConfig(group_name="g", retry_max_times=3)
        await kit.ask(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, NO, body)
        await commit(kit, 1)
        assert kit.front.shared.retries("g") == 3
        answer = await kit.ask(GET_SUBSCRIPTIONGROUP_CONFIG, m.OfGroupName(group="g"))
        assert m.read_body(m.SubscriptionGroupConfig, answer.body) == body
        answer = await kit.ask(GET_ALL_SUBSCRIPTIONGROUP_CONFIG, NO)
        assert m.read_body(m.SubscriptionGroups, answer.body).subscription_group_table["g"] == body
        async with serving(store=kit.store) as again:
            assert again.front.shared.retries("g") == 3
        await kit.ask(DELETE_SUBSCRIPTIONGROUP, m.DeleteGroup(group_name="g", clean_offset=True))
        assert kit.front.shared.retries("g") == 16
        assert await committed(kit, zero=False) is None

    run(check)


@pytest.mark.parametrize(("kind", "does"), [("TAG", True), ("CEL", False)])
def test_subscriptions_are_tried_before_they_are_used(kind: str, does: bool) -> None:
    async def check(kit: Kit) -> None:
        wanted = m.SubscriptionData(topic="demo", sub_string="a", expression_type=kind)
        body = m.CheckClientConfig(client_id="first", group="g", subscription_data=wanted)
        answer = await kit.ask(CHECK_CLIENT_CONFIG, NO, body, accept=(0, 1))
        assert (answer.code == 0) is does

    run(check)


def test_a_group_that_nobody_has_made_is_refused_where_others_are_not_served() -> None:
    async def check(kit: Kit) -> None:
        await kit.put(b"x")
        with pytest.raises(ServerError) as said:
            await kit.pull()
        assert said.value.code == Code.SUBSCRIPTION_GROUP_NOT_EXIST
        await kit.ask(UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, NO, m.SubscriptionGroupConfig(group_name="g"))
        assert [message.body for message in await kit.read()] == [b"x"]
        await kit.ask(DELETE_SUBSCRIPTIONGROUP, m.DeleteGroup(group_name="g"))
        with pytest.raises(ServerError, match="updateSubGroup"):
            await kit.pull()

    run(check, RocketFrontOptions(auto_create_groups=False))
