"""A toy node over a toy cluster hands frames on as they came: bodies, order, numbers, long polls, losses."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from penstock.client import Admin, Consumer
from penstock.testing import Broker
from tests.toy.behind import HERE, Behind, Line, handing_on
from tests.toy.cluster import toy_cluster
from tests.toy.framing import EVENT, pack
from tests.toy.killed_node import VALUES, read, written_while_a_node_was_killed
from tests.unit.client.virtual_time import passing, run


def virtually(work: Callable[[Behind], Awaitable[None]]) -> None:
    async def main() -> None:
        async with handing_on() as behind:
            await work(behind)

    run(main())


def write(node: str, number: int = 0, **more: Any) -> bytes:
    """As nobody's JSON is written: what went through a parser on its way would come out otherwise."""
    said = {"do": "write", "topic": "t", "partition": number, "node": node, **more}
    return json.dumps(said, indent=0, separators=(" ,", " : ")).replace("\n", " ").encode() + b"\n\x00\xff{}\n"


def test_bodies_go_as_they_came_under_numbers_of_the_nodes_own() -> None:
    async def work(behind: Behind) -> None:
        lines = [Line(behind), Line(behind)]
        asked = [await line.asked(write("node-a", 7, of=place)) for place, line in enumerate(lines)]
        first, second = sorted(await behind.arrived(2), key=lambda came: came.body)
        assert [first.body, second.body] == [write("node-a", 7, of=0), write("node-a", 7, of=1)]
        assert first.frame.correlation != second.frame.correlation  # the clients' were the same
        second.answer(b'{"b" :1}\n\xfe')
        first.answer(b'{ "a":1}\n\xff')
        assert [await each for each in asked] == [b'{ "a":1}\n\xff', b'{"b" :1}\n\xfe']
        for line in lines:
            await line.close()

    virtually(work)


def test_requests_to_a_node_are_written_in_the_order_in_which_they_came() -> None:
    async def work(behind: Behind) -> None:
        line = Line(behind)
        for number in range(200):  # nothing is connected when the first ones come
            await line.asked(write("node-a" if number % 3 else "node-b", number))
        came = await behind.arrived(200)
        for node in ("node-a", "node-b"):
            numbers = [each.said["partition"] for each in came if each.node == node]
            assert numbers == [number for number in range(200) if ("node-a" if number % 3 else "node-b") == node]
        assert len({each.peer.address for each in came}) == 2  # one connection a node, for all of it
        await line.close()

    virtually(work)


def test_a_held_pull_keeps_nobody_waiting_and_may_take_longer_than_any_other_answer() -> None:
    async def work(behind: Behind) -> None:
        line = Line(behind)
        pull = json.dumps({"do": "pull", "from": [], "wait_ms": 60_000, "node": "node-a"}).encode() + b"\n"
        held = await line.asked(pull, timeout_s=100)
        written = await line.asked(write("node-a"))
        (of_pull, of_write) = await behind.arrived(2)
        of_write.answer(b"{}\n")
        assert await written == b"{}\n"
        await passing(59)
        assert not held.done()
        of_pull.answer(b'{"found": []}\n')
        assert await held == b'{"found": []}\n'
        await line.close()

    virtually(work)


def test_what_was_under_way_to_a_node_that_dies_is_answered_as_worth_trying_again_at_once() -> None:
    async def work(behind: Behind) -> None:
        line = Line(behind)
        lost = [await line.asked(write("node-a", number)) for number in range(3)]
        other = await line.asked(write("node-b"))
        (alive,) = [came for came in await behind.arrived(4) if came.node == "node-b"]
        await behind.kill("node-a")
        for each in lost:
            answer = json.loads(await each)
            assert (answer["error"], answer["retriable"]) == ("UpstreamLost", True)
        alive.answer(b"{}\n")
        assert await other == b"{}\n"  # of the other node nothing is lost
        await line.close()

    virtually(work)


def test_a_node_that_comes_back_somewhere_else_is_looked_for() -> None:
    async def work(behind: Behind) -> None:
        line = Line(behind)
        lost = await line.asked(write("node-a"))
        await behind.arrived(1)
        await behind.kill("node-a")
        await lost
        await behind.start("node-a")
        again = [await line.asked(write("node-a", number)) for number in range(20)]
        (_, *came) = await behind.arrived(21)
        assert [each.said["partition"] for each in came] == list(range(20))  # nobody overtook the one who looked
        for each in came:
            each.answer(b"{}\n")
        assert [await each for each in again] == [b"{}\n"] * 20
        await line.close()

    virtually(work)


def test_what_wants_no_answer_gets_none() -> None:
    async def work(behind: Behind) -> None:
        line = Line(behind)
        await line.say(write("node-a", 1, oneway=True))
        asked = await line.asked(write("node-a", 2))
        first, second = await behind.arrived(2)
        assert (first.body, second.said["partition"]) == (write("node-a", 1, oneway=True), 2)
        second.answer(b"{}\n")
        assert await asked == b"{}\n"  # an answer to the first would have broken the connection
        await behind.kill("node-a")
        await line.say(write("node-a", 3, oneway=True))
        assert json.loads(await (await line.asked(write("node-a"))))["error"] == "UpstreamLost"
        await line.close()

    virtually(work)


def test_nobody_makes_the_node_connect_to_what_is_not_of_the_cluster() -> None:
    async def work(behind: Behind) -> None:
        line = Line(behind)
        for body in (write("127.0.0.1:22"), b'{"do": "write"}\n'):
            answer = json.loads(await (await line.asked(body)))
            assert (answer["error"], answer["retriable"]) == ("UsageError", False)
        assert not behind.came
        await line.close()

    virtually(work)


def test_clients_are_told_of_the_nodes_behind_and_to_come_here_for_them() -> None:
    async def work(behind: Behind) -> None:
        line = Line(behind)
        nodes = json.loads(await (await line.asked(b'{"do": "routes"}\n')))["nodes"]
        assert {name: (node["host"], node["port"]) for name, node in nodes.items()} == dict.fromkeys(
            ("node-a", "node-b"), (HERE.host, HERE.port)
        )
        await line.close()

    virtually(work)


def test_a_notice_of_a_node_behind_reaches_the_members_of_its_group() -> None:
    async def work(behind: Behind) -> None:
        member, other = Line(behind), Line(behind)
        for line, group in ((member, "g"), (other, "h")):
            said = {"do": "beat", "group": group, "member": "m", "topics": [], "owns": []}
            await (await line.asked(json.dumps(said).encode() + b"\n"))
            line.dialect.noticed.clear()  # of its own coming
        await member.asked(write("node-a"))
        (came,) = await behind.arrived(1)
        for group in ("g", "nobody"):
            came.peer.push(pack(EVENT, 0, {"event": "members", "group": group}))
        await passing(1)
        assert (member.dialect.noticed, other.dialect.noticed) == ({"g"}, set())
        for line in (member, other):
            await line.close()

    virtually(work)


def test_every_acknowledged_record_is_read_once_though_a_node_behind_was_killed_and_came_back(tmp_path: Path) -> None:
    with (
        toy_cluster(f"file:{tmp_path}") as cluster,
        Broker(cluster.address, listen="toy://127.0.0.1:0") as front,
    ):
        address = front.url("toy")
        written_while_a_node_was_killed(cluster, address, partitions=2)
        with Admin(address) as admin:
            partitions = [info.partition for info in admin.topics(["t"])["t"].partitions]
        assert {partition.node for partition in partitions} == {"node-1", "node-2"}
        with Consumer(f"{address}/t", group="g", auto_offset_reset="earliest") as consumer:
            assert sorted(read(consumer, len(VALUES)), key=int) == VALUES
