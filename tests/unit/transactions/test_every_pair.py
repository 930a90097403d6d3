"""Each (state, event) pair of the coordinator's table, by what must hold of all; and what checks make of requests."""

from __future__ import annotations

import itertools

import pytest
from msgspec.structs import replace

from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.transactions import (
    LARGEST_EPOCH,
    TABLE,
    Cause,
    Effect,
    Event,
    State,
    Transaction,
    asks_again,
    end_event,
    holder_fault,
    may_take_over,
    may_write,
    step,
)

P = Partition("t", 0)
ENDS = (Event.COMMIT, Event.ABORT, Event.COMMIT_2, Event.ABORT_2, Event.COMMIT_AGAIN, Event.ABORT_AGAIN)
ANSWERS = {Effect.ANSWER_OK, Effect.ANSWER_CONCURRENT, Effect.ANSWER_INVALID}
ASKED = {Event.INIT, Event.ADD, *ENDS}


def cause(**changes: object) -> Cause:
    return replace(Cause(1_000, itertools.count(900).__next__), **changes)  # type: ignore[arg-type]


def it(state: State = State.ONGOING, epoch: int = 5, **changes: object) -> Transaction:
    partitions = frozenset([P]) if state in (State.ONGOING, State.PREPARE_COMMIT, State.PREPARE_ABORT) else frozenset()
    return replace(Transaction("tx", 7, epoch, 60_000, state, partitions, 10, 20), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(("state", "event"), list(TABLE), ids=str)
def test_a_row_answers_who_asks_and_stores_what_changes(state: State, event: Event) -> None:
    row = TABLE[state, event]
    answers = [effect for effect in row.effects if effect in ANSWERS]
    fences = row.next is State.PREPARE_EPOCH_FENCE
    # An INIT that has to fence first is answered by the INIT that follows.
    assert len(answers) == (1 if event in ASKED and not fences else 0)
    refused = answers and answers[0] is not Effect.ANSWER_OK
    before = it(state)
    after, effects = step(before, event, cause(partitions=frozenset([Partition("t", 1)])))
    assert effects == row.effects
    assert after.state is row.next
    if refused:
        assert replace(after, updated_ms=before.updated_ms) == before
    changed = replace(after, updated_ms=before.updated_ms) != before
    assert Effect.STORE in effects or fences or not changed
    if Effect.MARK in effects:
        assert effects.index(Effect.STORE) < effects.index(Effect.MARK)
        assert row.next in (State.PREPARE_COMMIT, State.PREPARE_ABORT)
    if Effect.ANSWER_OK in effects:
        assert effects[-1] is Effect.ANSWER_OK


def test_every_state_but_the_last_is_left_and_every_state_is_reached() -> None:
    assert {state for state, _ in TABLE} == set(State) - {State.DEAD}
    assert {row.next for row in TABLE.values()} == set(State)
    assert {event for _, event in TABLE} == set(Event)


@pytest.mark.parametrize("event", ENDS)
def test_a_decision_is_never_reversed(event: Event) -> None:
    for state in (State.PREPARE_COMMIT, State.PREPARE_ABORT):
        after, effects = step(it(state), event, cause())
        assert (after.state, Effect.MARK in effects) == (state, False)


def test_a_transaction_begins_with_its_first_partitions_and_no_old_ones() -> None:
    for state in (State.EMPTY, State.COMPLETE_COMMIT, State.COMPLETE_ABORT):
        after, _ = step(
            it(state, partitions=frozenset([P])), Event.ADD, cause(partitions=frozenset([Partition("u", 3)]))
        )
        assert (after.partitions, after.started_ms) == (frozenset([Partition("u", 3)]), 1_000)
    after, _ = step(it(), Event.ADD, cause(partitions=frozenset([Partition("u", 3)])))
    assert (len(after.partitions), after.started_ms) == (2, 10)


def test_epochs_only_grow_and_an_exhausted_id_is_replaced() -> None:
    taken, _ = step(it(State.EMPTY), Event.INIT, cause(timeout_ms=5))
    assert (taken.producer_id, taken.epoch, taken.timeout_ms) == (7, 6, 5)
    taken, _ = step(it(State.EMPTY, LARGEST_EPOCH), Event.INIT, cause())
    assert (taken.producer_id, taken.epoch, taken.previous_producer_id) == (900, 0, 7)
    assert asks_again(taken, 7, LARGEST_EPOCH)
    fenced, _ = step(it(epoch=LARGEST_EPOCH), Event.TIMED_OUT, cause())
    assert (fenced.producer_id, fenced.epoch) == (7, LARGEST_EPOCH + 1)
    ending, _ = step(it(epoch=LARGEST_EPOCH), Event.COMMIT_2, cause())
    assert (ending.producer_id, ending.epoch, ending.next_producer_id) == (7, LARGEST_EPOCH + 1, 900)
    done, _ = step(ending, Event.MARKED, cause())
    assert (done.producer_id, done.epoch, done.previous_producer_id, done.next_producer_id) == (900, 0, 7, -1)
    assert end_event(replace(done, second=True), 7, LARGEST_EPOCH, commit=True, second=True) is Event.COMMIT_AGAIN


def test_the_first_version_keeps_the_epoch_at_the_end_and_the_second_raises_it() -> None:
    for event, epoch in ((Event.COMMIT, 5), (Event.ABORT, 5), (Event.COMMIT_2, 6), (Event.ABORT_2, 6)):
        after, _ = step(it(), event, cause())
        assert after.epoch == epoch


def test_only_its_last_holder_raises_an_epoch_by_name() -> None:
    fresh, _ = step(it(State.COMPLETE_COMMIT), Event.INIT, cause())
    assert may_take_over(fresh, -1, -1) is ErrorCode.NONE
    assert may_take_over(fresh, 7, 6) is ErrorCode.NONE
    assert asks_again(fresh, 7, 5)
    assert may_take_over(fresh, 7, 4) is ErrorCode.PRODUCER_FENCED
    assert may_take_over(fresh, 8, 6) is ErrorCode.PRODUCER_FENCED
    assert not asks_again(it(), 7, 4)


def test_who_is_not_the_holder_is_told_so() -> None:
    assert holder_fault(None, 7, 5) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert holder_fault(it(), 8, 5) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
    assert holder_fault(it(), 7, 4) is holder_fault(it(), 7, 6) is ErrorCode.PRODUCER_FENCED
    assert end_event(it(), 7, 4, commit=True, second=True) is ErrorCode.PRODUCER_FENCED
    ended = it(State.COMPLETE_COMMIT, 6, second=True)
    assert end_event(ended, 7, 5, commit=True, second=True) is Event.COMMIT_AGAIN
    assert end_event(ended, 7, 5, commit=True, second=False) is ErrorCode.PRODUCER_FENCED
    assert end_event(ended, 7, 6, commit=False, second=True) is Event.ABORT_2


def test_batches_belong_to_an_open_transaction_of_their_partition() -> None:
    assert may_write(it(), 7, 5, P) is ErrorCode.NONE
    assert may_write(it(), 7, 5, Partition("t", 1)) is ErrorCode.INVALID_TXN_STATE
    assert may_write(it(), 7, 4, P) is ErrorCode.INVALID_PRODUCER_EPOCH
    assert may_write(it(State.PREPARE_COMMIT), 7, 5, P) is ErrorCode.CONCURRENT_TRANSACTIONS
    for state in (State.EMPTY, State.COMPLETE_ABORT):
        assert may_write(it(state), 7, 5, P) is ErrorCode.INVALID_TXN_STATE
    assert may_write(None, 7, 5, P) is ErrorCode.INVALID_PRODUCER_ID_MAPPING
