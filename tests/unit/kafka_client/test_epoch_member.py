"""The table of a newer group's member: every answer is decided, and nobody keeps what is not theirs any more."""

from __future__ import annotations

import itertools

import pytest

from penstock.errors import ConnectionLost, CorruptBatch, RequestTimeout
from penstock.protocols.kafka.client.consumer_member import ASKING, TABLE, Effect, Event, State, event_of
from penstock.protocols.kafka.errors import ROWS, error_for

ERRORS = (Event.DROPPED, Event.NO_GROUP, Event.REPLACED, Event.LOADING, Event.MOVED, Event.REFUSED)
MEMBERS = (State.STABLE, State.RECONCILING, State.ACKNOWLEDGING)


@pytest.mark.parametrize(("state", "event"), [*itertools.product((State.JOINING, *MEMBERS), ERRORS)])
def test_every_error_is_decided_wherever_an_answer_is_awaited(state: State, event: Event) -> None:
    assert (state, event) in TABLE


@pytest.mark.parametrize(
    ("state", "event"),
    [*itertools.product(MEMBERS, (Event.AS_IT_IS, Event.ANOTHER_TARGET)), (State.JOINING, Event.HELD)],
)
def test_every_good_answer_is_decided(state: State, event: Event) -> None:
    assert (state, event) in TABLE


@pytest.mark.parametrize("state", State)
def test_a_member_can_become_stable_or_is_told_why_not(state: State) -> None:
    reachable, fresh = {state}, {state}
    while fresh:
        fresh = {row.next for (here, _), row in TABLE.items() if here in fresh} - reachable
        reachable |= fresh
    assert (State.STABLE in reachable) is (state is not State.REPLACED)


def test_who_is_a_member_no_more_forgets_its_epoch_and_who_is_one_keeps_it() -> None:
    for (state, event), row in TABLE.items():
        if state in MEMBERS:
            assert (Effect.FORGET_EPOCH in row.effects) is (row.next not in MEMBERS), (state, event)
        if Effect.LOSE in row.effects:
            assert state in MEMBERS
        if row.next is State.RECONCILING and event is Event.ANOTHER_TARGET:
            assert Effect.REJOIN in row.effects


def test_a_join_ends_or_tries_again_after_a_pause_or_as_somebody_else() -> None:
    for (state, event), row in TABLE.items():
        if state in ASKING and row.next is state:
            assert Effect.BACK_OFF in row.effects, (state, event)
        if state in ASKING and row.next is State.UNJOINED and event is not Event.GIVEN_UP:
            assert Effect.RAISE in row.effects, (state, event)


@pytest.mark.parametrize("code", [each for each in ROWS if each])
def test_every_error_code_means_something_to_a_member(code: int) -> None:
    event = event_of(error_for(code, "joining"))
    assert event in (*ERRORS, Event.HELD)
    if event is Event.REFUSED:
        assert not ROWS[code].retriable


def test_trouble_of_the_network_means_that_the_coordinator_is_out_of_reach() -> None:
    assert event_of(ConnectionLost("gone")) is event_of(RequestTimeout("late")) is Event.MOVED
    assert event_of(CorruptBatch("odd")) is Event.REFUSED
