"""``penstock groups explain``: from a node's memory to a person's eyes, and what is said where nobody remembers."""

from __future__ import annotations

import logging

import pytest

from penstock.client import Admin, Consumer
from penstock.model import Partition
from penstock.testing import Broker
from tests.unit.cli.running import fill, penstock, refused


def test_a_group_that_was_joined_and_left_tells_why(log: Broker, caplog: pytest.LogCaptureFixture) -> None:
    log.create_topic("t", partitions=2)
    fill(log, "t", [b"1"])
    with caplog.at_level(logging.INFO, "penstock.node"), Consumer(f"{log.address}/t", group="g") as consumer:
        assert len(consumer.poll(10)) == 1
        (_, line), *_ = penstock("groups", "explain", log.address, "g").rows
        assert line.startswith("generation 1 of 1 member after ")
        assert "joined" in line
        assert "lost 0 and gained 2" in line
    first, second = penstock("groups", "explain", log.address, "g", "--json").objects
    assert (first["generation"], first["ending"], first["moved_total"]) == (1, "assigned", 1)
    assert second["ending"] == "nobody was left"
    assert second["took_ms"] == second["join_ms"]
    assert f"group g: {line}" in caplog.messages


def test_a_program_is_told_the_same(log: Broker) -> None:
    log.create_topic("t")
    fill(log, "t", [b"1"])
    with Admin(log.address) as admin, Consumer(f"{log.address}/t", group="g") as consumer:
        assert len(consumer.poll(10)) == 1
        (told,) = admin.rebalances("g") or ()
        assert [move.gained for move in told.moved] == [(Partition("t", 0),)]
        assert [reason.member for reason in told.reasons] == [told.leader]


def test_a_group_without_members_has_nothing_to_tell(log: Broker) -> None:
    log.create_topic("t")
    with Admin(log.address) as admin:
        admin.commit("g", {Partition("t", 0): 0})
    ran = penstock("groups", "explain", log.address, "g")
    assert (ran.code, ran.rows) == (0, [])
    assert "has not been rebalanced since" in ran.stderr


def test_a_group_that_nobody_knows_is_no_quiet_one(log: Broker) -> None:
    assert "nothing is known of the rebalances of absent" in refused("groups", "explain", log.address, "absent")
