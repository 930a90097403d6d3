"""Members that a bench drives do what members do: against a node of ours, all parts come to their end and agree."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from bench.clients.group_classic import ClassicMember, check_dealt
from bench.clients.group_line import Line, Refused, opened
from bench.clients.group_newer import NewerMember, converge
from bench.goals import GOALS
from bench.groups_case import run
from bench.report import tables
from bench.scenarios import groups
from bench.session import Session
from penstock.testing import Broker

PHASES = {
    "classic": ["all join", "heartbeats", "one more joins", "one leaves"],
    "newer": ["all join", "heartbeats", "one more joins", "one leaves"],
    "many": ["all join", "commits", "heartbeats", "ListGroups", "DescribeGroups, all at once"],
}


@pytest.fixture
def node() -> Iterator[Broker]:
    with Broker() as broker:
        broker.create_topic("t", partitions=10)
        yield broker


def bootstrap(node: Broker) -> str:
    return node.address.removeprefix("kafka://")


def measured(node: Broker, part: str) -> Mapping[str, Any]:
    job = {
        "part": part, "bootstrap": bootstrap(node), "pid": os.getpid(), "topic": "t", "group": part,
        "members": 4, "partitions": 10, "groups": 3,
    }  # fmt: skip
    return asyncio.run(run(job))


@pytest.mark.parametrize("part", groups.PARTS)
def test_each_part_comes_to_its_end_and_leaves_no_group_behind(node: Broker, part: str) -> None:
    told = measured(node, part)
    assert [*told["phases"]][: len(PHASES[part])] == PHASES[part]
    assert all(each["seconds"] > 0 for each in told["phases"].values())
    assert [*told["memory"]] == ["before", "with it", "after"]
    assert measured(node, part)["phases"].keys() == told["phases"].keys()  # the same names are free again


def test_figures_become_samples_that_are_divided(node: Broker) -> None:
    session = Session()
    told = measured(node, "classic")
    for case in (groups.NODE, groups.BROKER):
        groups.add(session, "classic group of 4", case, 0, told)
    titles = [title.partition(" (load")[0] for title, _ in tables(session.samples, groups.RIVALS)]
    assert titles[:2] == [
        "groups, classic group of 4, all join: s until all is done",
        "groups, classic group of 4, all join: CPU s of the server",
    ]
    assert titles[-1] == "groups, classic group of 4, memory after: MB of the server"
    for _, rows in tables(session.samples, groups.RIVALS):
        if float(rows[1][3]):
            assert rows[1][-1] == "÷ Kafka 1.00 (1.00-1.00)"


def test_goals_are_of_phases_that_are_measured(node: Broker) -> None:
    full = groups.variants(groups.FULL)
    known = {f"{full[part]}, {phase}" for part in groups.PARTS for phase in measured(node, part)["phases"]}
    known |= {f"{each}, memory {when}" for each in full.values() for when in ("before", "with it", "after")}
    ours = [goal for goal in GOALS if goal.scenario == "groups"]
    assert ours
    for goal in ours:
        assert goal.variant in known, goal.what
        assert (goal.case, goal.rival) in {(groups.NODE, groups.BROKER), (groups.NODE, "")}, goal.what


def test_partitions_that_nobody_has_or_two_have_are_noticed() -> None:
    members = [ClassicMember(Line(), "g", "t", 3) for _ in range(2)]
    members[0].owned, members[1].owned = [0, 2], [1]
    check_dealt(members, 3)
    for wrong in ([], [2], [1, 2]):
        members[1].owned = wrong
        with pytest.raises(RuntimeError, match="partitions are owned"):
            check_dealt(members, 3)


def test_a_member_that_the_server_does_not_know_says_so(node: Broker) -> None:
    async def body() -> None:
        (line,) = await opened(bootstrap(node), 1, "g")
        try:
            stranger = NewerMember(line, "g", "t")
            stranger.epoch = 7
            with pytest.raises(Refused, match="code 69"):
                await converge([stranger], 10)
            with pytest.raises(Refused, match="code 25"):
                await ClassicMember(line, "g", "t", 10).leave()
        finally:
            line.close()

    asyncio.run(body())
