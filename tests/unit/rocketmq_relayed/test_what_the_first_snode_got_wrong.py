"""Defects of the first Snode that no other file here has a test of. README.md beside this lists all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.model import Endpoint
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.messages import read_body, write_body
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_relayed.kit import NAMES, Client, Server, World, ok, run

ROOT = Path(__file__).resolve().parents[3]
FILES = ("enodeName", "enodeAddr", "bname")


def of_queue(**more: object) -> dict[str, object]:
    return {"topic": "t", "queueId": 1, **more}


def enode(by: str) -> dict[str, str]:
    return {by: "broker-a:10911" if by == "enodeAddr" else "a"}


async def groups(client: Client, *names: str, produces: str = "") -> RemotingCommand:
    """A heartbeat in these groups, as the Snode's branch writes it: with words that only its Snode knows."""
    wanted = (m.SubscriptionData(topic="t", sub_string="*"),)
    consumers = tuple(m.ConsumerData(group_name=name, subscription_data_set=wanted) for name in names)
    producers = (m.ProducerData(group_name=produces),) if produces else ()
    said = m.HeartbeatData(client_id="c", consumer_data_set=consumers, producer_data_set=producers)
    return await client.ask(34, write_body(said)[:-1] + b',"snodeData":{"snodeName":"s"},"messageQueueSet":[]}')


async def connected(client: Client, code: int, **group: str) -> bool:
    return (await client.ask(code, **group)).code == 0


def test_a_heartbeat_is_answered_as_done() -> None:
    async def test(world: World) -> None:
        said = await groups(await world.client(), "g", produces="p")
        assert (said.code, said.is_answer) == (0, True)

    run(test)


def test_an_empty_long_poll_is_answered() -> None:
    async def test(world: World) -> None:
        nothing = RemotingCommand(
            19, fields={"nextBeginOffset": "5", "minOffset": "0", "maxOffset": "5"}, remark="none"
        )
        world.serve(lambda server, asked: nothing)
        client = await world.client()
        await groups(client, "g")
        said = await client.ask(351, **of_queue(consumerGroup="g", queueOffset=5, sysFlag=2, **enode("enodeAddr")))
        assert (said.code, said.body, said.fields["nextBeginOffset"], said.remark) == (19, b"", "5", "none")

    run(test)


@pytest.mark.parametrize("by", FILES)
@pytest.mark.parametrize("code", [10, 310, 320])
def test_sends_of_every_kind_reach_the_enode_that_they_name_in_any_way(code: int, by: str) -> None:
    async def test(world: World) -> None:
        client = await world.client()
        named = {"n": "a"} if code != 10 and by == "bname" else enode(by)
        assert (await client.ask(code, b"body", topic="t", b="t", queueId=-1, e=-1, **named)).code == 0
        (seen,) = world.brokers["a:0"].of(code)
        assert (seen.body, seen.fields["e"], seen.fields["queueId"]) == (b"body", "-1", "-1")

    run(test)


def test_every_name_server_learns_of_the_snode() -> None:
    async def test(world: World) -> None:
        other = Server(world.names.serves)
        await world.network.listen(other.end, Endpoint("other", 9876), backlog=1)
        await passing(2)
        assert [len(each.of(350)) for each in (world.names, other)] == [1, 1]

    run(test, store=f"rocketmq://{NAMES},other:9876")


def test_no_two_heartbeats_of_the_node_have_one_number() -> None:
    async def test(world: World) -> None:
        await groups(await world.client(), produces="p")
        await passing(50)
        for name in ("a:0", "b:0"):
            numbers = [each.opaque for each in world.brokers[name].of(34)]
            assert len(numbers) == len(set(numbers)) == 4

    run(test)


def test_enodes_are_known_from_the_first_moment_on() -> None:
    async def test(world: World) -> None:
        assert [each.name for each in world.front.around.relay.brokers.masters()] == ["a", "b"]

    run(test)


def test_settings_of_groups_are_kept_by_every_enode() -> None:
    async def test(world: World) -> None:
        body = write_body(m.SubscriptionGroupConfig(group_name="g"))
        assert (await (await world.client()).ask(200, body)).code == 0
        assert [bytes(world.brokers[name].of(200)[0].body) for name in ("a:0", "b:0")] == [body, body]

    run(test)


@pytest.mark.parametrize("by", FILES)
@pytest.mark.parametrize(
    ("code", "found"), [(14, "offset"), (29, "offset"), (30, "offset"), (31, "offset"), (32, "timestamp")]
)
def test_whatever_is_asked_of_a_queue_is_answered(code: int, found: str, by: str) -> None:
    async def test(world: World) -> None:
        world.serve(lambda server, asked: ok(fields={found: "7"}), "a:0")
        client = await world.client()
        said = await client.ask(code, **of_queue(consumerGroup="g", timestamp=1, **enode(by)))
        assert (said.code, said.fields) == (0, {found: "7"})

    run(test)


def test_a_group_that_has_committed_nothing_is_told_so_and_what_it_commits_is_kept() -> None:
    async def test(world: World) -> None:
        kept: dict[str, str] = {}

        def serves(server: Server, asked: RemotingCommand) -> RemotingCommand:
            if asked.code == 15:
                kept["offset"] = asked.fields["commitOffset"]
            return ok(fields=kept) if kept else RemotingCommand(22, remark="Not found, V3_0_6_SNAPSHOT maybe")

        world.serve(serves, "a:0")
        client = await world.client()
        asked = of_queue(consumerGroup="g", **enode("enodeName"))
        said = await client.ask(14, **asked)
        assert (said.code, said.fields, said.remark) == (22, {}, "Not found, V3_0_6_SNAPSHOT maybe")
        assert (await client.ask(15, **asked, commitOffset=3)).code == 0
        assert (await client.ask(14, **asked)).fields == {"offset": "3"}

    run(test)


def test_what_was_sent_back_is_answered_as_the_enode_answers_it_and_not_sent_again() -> None:
    async def test(world: World) -> None:
        client = await world.client()
        said = await client.ask(36, group="g", offset=9, delayLevel=0, **enode("enodeName"))
        assert (said.code, len(world.brokers["a:0"].of(36))) == (0, 1)

    run(test)


def test_a_connection_leaves_every_group_it_came_to_whenever_that_was() -> None:
    async def test(world: World) -> None:
        other, client = await world.client(), await world.client()
        await groups(client, "first")
        await groups(client, "first", "second", produces="p")
        asked = [(38, {"consumerGroup": "first"}), (38, {"consumerGroup": "second"}), (204, {"producerGroup": "p"})]
        assert [await connected(other, code, **group) for code, group in asked] == [True, True, True]
        client.end.hang_up()
        await passing(0.1)
        assert [await connected(other, code, **group) for code, group in asked] == [False, False, False]

    run(test)


def test_a_pull_that_names_no_group_is_answered_too() -> None:
    async def test(world: World) -> None:
        said = await (await world.client()).ask(351, **of_queue(queueOffset=0, **enode("enodeName")))
        assert said.code == 24

    run(test)


@pytest.mark.parametrize("code", [41, 42])
def test_a_lock_is_a_lock_and_its_end_is_its_end(code: int) -> None:
    async def test(world: World) -> None:
        queue = m.MessageQueue(topic="t", broker_name="a", queue_id=1)
        body = write_body(m.LockQueues(consumer_group="g", client_id="c", mq_set=(queue,)))
        world.serve(lambda server, asked: ok(write_body(m.LockedQueues(lock_ok_mq_set=(queue,)))), "a:0")
        said = await (await world.client()).ask(code, body, **enode("enodeName"))
        assert read_body(m.LockedQueues, said.body).lock_ok_mq_set == (queue,)
        assert [(each.code, each.body) for each in world.brokers["a:0"].seen if each.code in (41, 42)] == [(code, body)]

    run(test)


def test_every_defect_in_the_table_has_its_test() -> None:
    page = (Path(__file__).parent / "README.md").read_text(encoding="utf-8")
    rows = [line.split("|") for line in page.splitlines() if re.match(r"\| 8\.[36]\.", line)]
    wanted = [*(f"8.3.{n}" for n in range(1, 17)), *(f"8.6.{n}" for n in range(1, 14))]
    assert [row[1].strip() for row in rows] == wanted
    for row in rows:
        named = re.findall(r"`(?:([\w/]+)::)?(test_\w+)`", row[3])
        assert named or "not here" in row[3], row
        for file, test in named:
            path = ROOT / f"tests/{file}.py" if file else None
            folder = [path] if path else sorted(Path(__file__).parent.glob("test_*.py"))
            assert any(f"def {test}(" in each.read_text(encoding="utf-8") for each in folder), test
