"""Sharing out queues: to the letter what Java's classes do, whose output for one input stands below."""

from __future__ import annotations

import pytest

from penstock.model import Partition
from penstock.protocols.rocketmq.client.membership import (
    Rule,
    averagely,
    by_consistent_hash,
    by_machine_room,
    by_rooms_nearby,
    circle,
    rule_of,
)
from penstock.protocols.rocketmq.config import Allocation

MEMBERS = ("10.0.0.1@1", "10.0.0.1@2", "10.0.0.2@1", "10.0.0.3@1")
QUEUES = [
    *(Partition("T1", number, "broker-a") for number in range(4)),
    *(Partition("T1", number, "broker-b") for number in range(4)),
    Partition("T1", 0, "broker-c"),
]


def shares(rule: Rule, members: tuple[str, ...] = MEMBERS, queues: list[Partition] = QUEUES) -> str:
    """As "a0 a1 | b0", one share after the other."""
    each = (rule(member, members, queues) for member in members)
    return " | ".join(" ".join(f"{queue.node[-1]}{queue.id}" for queue in share) for share in each)


@pytest.mark.parametrize(
    ("rule", "wanted"),
    [
        (averagely, "a0 a1 a2 | a3 b0 | b1 b2 | b3 c0"),
        (circle, "a0 b0 c0 | a1 b1 | a2 b2 | a3 b3"),
        (by_consistent_hash, "b2 | a2 b1 | a0 a1 | a3 b0 b3 c0"),
    ],
)
def test_a_rule_is_javas(rule: Rule, wanted: str) -> None:
    assert shares(rule) == wanted


@pytest.mark.parametrize("rule", [averagely, circle, by_consistent_hash, by_machine_room(["r"])])
@pytest.mark.parametrize("members", range(1, 7))
@pytest.mark.parametrize("queues", range(12))
def test_every_queue_is_one_members(rule: Rule, members: int, queues: int) -> None:
    names = [f"m{number}" for number in range(members)]
    there = [Partition("t", number, "r@b") for number in range(queues)]
    given = [queue for name in names for queue in rule(name, names, there)]
    assert sorted(given) == there
    assert rule("nobody", names, there) == ()


def test_queues_of_other_rooms_are_left_alone() -> None:
    there = [Partition("t", number, f"{room}@b") for room in ("far", "near") for number in range(3)]
    found = [by_machine_room(["near"])(member, ["m0", "m1"], there) for member in ("m0", "m1")]
    assert [[queue.id for queue in share] for share in found] == [[0, 2], [1]]
    assert {queue.node for share in found for queue in share} == {"near@b"}


def test_members_read_of_their_own_room_and_share_what_is_nobodys() -> None:
    there = [Partition("t", number, f"{room}@b") for room in ("x", "y", "z") for number in range(2)]
    rule = by_rooms_nearby(averagely, lambda queue: queue.node[0], lambda member: member[0])
    members = ["x1", "x2", "y1"]
    found = {name: [f"{queue.node[0]}{queue.id}" for queue in rule(name, members, there)] for name in members}
    assert found == {"x1": ["x0", "z0"], "x2": ["x1", "z1"], "y1": ["y0", "y1"]}


@pytest.mark.parametrize("allocation", Allocation)
def test_every_allocation_has_a_rule(allocation: Allocation) -> None:
    assert rule_of(allocation, ["r"])("r@m", ["r@m"], [Partition("t", 0, "r@b")]) == [Partition("t", 0, "r@b")]
