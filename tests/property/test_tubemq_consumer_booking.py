"""The booking of a partition: what holds of its table, and on every walk through it."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocols.tubemq.client.assigned_partitions import TABLE, Booked, Effect, Event, State

WITH_A_BATCH = {State.READING, State.OUT, State.CONFIRMING}
RESTING = {State.IDLE, State.WAITING, State.FROZEN}


def test_every_state_can_be_reached_and_left() -> None:
    reached = {State.WANTED}
    while True:
        found = {
            to for (state, _), row in TABLE.items() if state in reached for to in ([row.next] if row.next else RESTING)
        }
        if found <= reached:
            break
        reached |= found
    assert reached == set(State)
    for state in set(State) - {State.GONE}:
        assert any(row.next is not state for (at, _), row in TABLE.items() if at is state), state


def test_gone_is_final() -> None:
    assert {row.next for (state, _), row in TABLE.items() if state is State.GONE} == {State.GONE}


def test_only_a_confirmation_makes_a_batch_consumed() -> None:
    assert {event for (_, event), row in TABLE.items() if Effect.COUNT in row.effects} == {Event.CONFIRMED}


def test_the_application_may_freeze_and_thaw_at_any_time() -> None:
    for state in State:
        assert (state, Event.FREEZE) in TABLE
        assert (state, Event.THAW) in TABLE


STEPS = st.lists(
    st.tuples(st.sampled_from(Event), st.sampled_from([0.0, 0.4, 2.0]), st.booleans()), min_size=1, max_size=40
)


@given(STEPS)
def test_a_walk_never_has_two_batches_out_and_forgets_what_was_not_confirmed(
    steps: list[tuple[Event, float, bool]],
) -> None:
    booked, now, token = Booked(), 0.0, 0
    for event, wait_s, consumed in steps:
        now += 0.3
        before = booked.state
        if (before, event) not in TABLE:
            continue
        token += 1
        after = booked.see(event, now, token=token, wait_s=wait_s, consumed=consumed)
        if event is Event.SELECT:
            assert booked.token == token
        if after in RESTING or after in {State.WANTED, State.LEAVING, State.GONE}:
            assert booked.token == 0 or before in {State.DRAINING, State.LEAVING, State.GONE}
        if after in WITH_A_BATCH:
            assert booked.token != 0
        if after is State.FROZEN:
            assert booked.frozen
        if after is State.WAITING:
            assert booked.until > now
        if booked.consumed:
            assert not (
                before in WITH_A_BATCH and event is not Event.CONFIRMED and after not in WITH_A_BATCH | {State.DRAINING}
            )


@given(STEPS, st.floats(0.0, 5.0))
def test_time_alone_ends_waits_and_batches_nobody_confirmed(
    steps: list[tuple[Event, float, bool]], confirm_s: float
) -> None:
    booked, now = Booked(), 0.0
    for event, wait_s, consumed in steps:
        if (booked.state, event) in TABLE:
            booked.see(event, now, token=1, wait_s=wait_s, consumed=consumed)
        if booked.state is State.OUT:
            booked.confirm_by = now + confirm_s
    booked.tick(now + 10.0)
    assert booked.state not in {State.WAITING, State.OUT}
    if booked.state in {State.IDLE, State.FROZEN}:
        assert booked.token == 0
