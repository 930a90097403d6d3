"""The member's table: every pair is decided, and decided so that a member is never stuck and never keeps too much."""

from __future__ import annotations

import itertools

import pytest

from penstock.errors import ConnectionLost, CorruptBatch, RequestTimeout
from penstock.protocols.kafka.client.classic_member import TABLE, Effect, Event, State, event_of
from penstock.protocols.kafka.errors import ROWS, error_for

ANSWERS = (
    Event.OK,
    Event.REBALANCING,
    Event.OLD_GENERATION,
    Event.UNKNOWN,
    Event.FENCED,
    Event.LOADING,
    Event.MOVED,
    Event.REFUSED,
)


@pytest.mark.parametrize(
    ("state", "event"), [*itertools.product((State.JOINING, State.SYNCING, State.STABLE), ANSWERS)]
)
def test_every_answer_is_decided_wherever_one_is_awaited(state: State, event: Event) -> None:
    assert (state, event) in TABLE


@pytest.mark.parametrize("state", State)
def test_a_member_can_join_or_has_joined_or_is_told_why_not(state: State) -> None:
    reachable, fresh = {state}, {state}
    while fresh:
        fresh = {row.next for (here, _), row in TABLE.items() if here in fresh} - reachable
        reachable |= fresh
    assert (State.STABLE in reachable) is (state is not State.FENCED)


def test_whoever_lost_its_place_says_so_and_forgets_its_generation() -> None:
    for (state, event), row in TABLE.items():
        if Effect.LOSE in row.effects:
            assert state is State.STABLE
            assert {Effect.FORGET_GENERATION, Effect.FORGET_IDENTITY} & set(row.effects)
        if event is Event.UNKNOWN:
            assert Effect.FORGET_IDENTITY in row.effects
        if event is Event.FENCED:
            assert (row.next, Effect.RAISE in row.effects) == (State.FENCED, True)
        if event is Event.MOVED:
            assert Effect.FIND_COORDINATOR in row.effects


@pytest.mark.parametrize("code", [each for each in ROWS if each])
def test_every_error_code_means_something_to_a_member(code: int) -> None:
    event = event_of(error_for(code, "joining"))
    assert event in (*ANSWERS, Event.NEEDS_ID)
    if event is Event.REFUSED:
        assert not ROWS[code].retriable


def test_trouble_of_the_network_means_that_the_coordinator_is_out_of_reach() -> None:
    assert event_of(None) is Event.OK
    assert event_of(ConnectionLost("gone")) is event_of(RequestTimeout("late")) is Event.MOVED
    assert event_of(CorruptBatch("odd")) is Event.REFUSED
