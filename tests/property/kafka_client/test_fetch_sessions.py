"""Fetch sessions: whatever is wanted and whatever gets lost, a broker that answers reads what is wanted, all of it."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from penstock.protocols.kafka.client.fetch import FetchPosition, FetchSession, Key, State
from tests.unit.kafka_client.session_keeper import Keeper

PARTITIONS = st.tuples(st.sampled_from("ab"), st.integers(0, 2))
PLACES = st.builds(FetchPosition, st.integers(0, 3), st.integers(0, 1), st.just(-1), st.just(1))
WANTED = st.dictionaries(PARTITIONS, PLACES, min_size=1)


class Fate(enum.Enum):
    """What becomes of a request; ``TOO_MUCH`` and ``TOO_LITTLE`` are answers about other partitions than were asked."""

    ANSWERED = 0
    LOST_ON_THE_WAY = 1
    LOST_ON_THE_WAY_BACK = 2
    EVICTED_BEFORE = 3
    TOO_MUCH = 4
    TOO_LITTLE = 5


STEPS = st.lists(st.tuples(WANTED, st.booleans(), st.sampled_from(Fate), st.booleans()), max_size=30)


def called(wanted: Mapping[tuple[str, int], FetchPosition], by_ids: bool) -> dict[Key, FetchPosition]:
    """The same by topic ids."""
    return {(topic.encode() * 16 if by_ids else topic, number): at for (topic, number), at in wanted.items()}


def step(session: FetchSession, keeper: Keeper, wanted: Mapping[Key, FetchPosition], by_ids: bool, fate: Fate) -> bool:
    """One request; whether it was answered without an error."""
    asked = session.ask(wanted, by_ids=by_ids)
    if fate is Fate.LOST_ON_THE_WAY:
        session.lost(asked)
        return False
    if fate is Fate.EVICTED_BEFORE:
        keeper.evict()
    code, session_id, read = keeper.asked(asked.session_id, asked.epoch, asked.named, asked.forgotten, by_ids=by_ids)
    if fate is Fate.LOST_ON_THE_WAY_BACK:
        session.lost(asked)
        return False
    if code:
        assert asked.incremental, "nothing is asked for, and refused, twice"
        session.answered(asked, code, session_id, ())
        return False
    assert read == wanted
    told = list(read) if not asked.incremental else list(read)[:1]
    if fate is Fate.TOO_MUCH:
        told.append(("c", 9))
    elif fate is Fate.TOO_LITTLE:
        told = told[1:]
    session.answered(asked, 0, session_id, told)
    return True


@given(STEPS, st.booleans())
def test_what_a_broker_reads_is_what_is_wanted(
    steps: list[tuple[dict[tuple[str, int], FetchPosition], bool, Fate, bool]], room: bool
) -> None:
    session, keeper = FetchSession(), Keeper(1_000 if room else 0)
    by_ids = False
    for wanted, other_names, fate, empty_broker in steps:
        by_ids ^= other_names
        if empty_broker:
            keeper.evict()
        places = called(wanted, by_ids)
        if not step(session, keeper, places, by_ids, fate) and fate is not Fate.LOST_ON_THE_WAY:
            assert step(session, keeper, places, by_ids, Fate.ANSWERED), "what was refused is read when asked again"
    last = called({("a", 0): FetchPosition(0, 0, -1, 1)}, by_ids)
    assert any(step(session, keeper, last, by_ids, Fate.ANSWERED) for _ in range(2))
    assert (session.state is State.KEPT) == room


@given(WANTED, WANTED, WANTED)
def test_what_is_asked_beside_a_request_belongs_to_no_session(
    first: dict[tuple[str, int], FetchPosition],
    beside: dict[tuple[str, int], FetchPosition],
    after: dict[tuple[str, int], FetchPosition],
) -> None:
    session, keeper = FetchSession(), Keeper()
    assert step(session, keeper, called(first, False), False, Fate.ANSWERED)
    waits = session.ask(called(after, False), by_ids=False)
    other = session.ask(called(beside, False), by_ids=False)
    assert (other.session_id, other.epoch, other.named) == (0, -1, called(beside, False))
    session.answered(other, 0, 0, list(other.named))
    code, session_id, read = keeper.asked(waits.session_id, waits.epoch, waits.named, waits.forgotten, by_ids=False)
    assert (code, read) == (0, called(after, False))
    session.answered(waits, 0, session_id, ())
    assert step(session, keeper, called(first, False), False, Fate.ANSWERED)


def test_what_is_unchanged_is_not_said_again() -> None:
    session, keeper = FetchSession(), Keeper()
    wanted: dict[Key, FetchPosition] = {("a", number): FetchPosition(number, 0, -1, 1) for number in range(3)}
    assert step(session, keeper, wanted, False, Fate.ANSWERED)
    moved = {**wanted, ("a", 1): FetchPosition(7, 0, -1, 1)}
    del moved["a", 2]
    asked = session.ask(moved, by_ids=False)
    assert (dict(asked.named), list(asked.forgotten)) == ({("a", 1): FetchPosition(7, 0, -1, 1)}, [("a", 2)])
    assert asked.incremental


def test_numbers_begin_anew_behind_the_last_one() -> None:
    session, keeper = FetchSession(), Keeper()
    wanted: dict[Key, FetchPosition] = {("a", 0): FetchPosition(0, 0, -1, 1)}
    assert step(session, keeper, wanted, False, Fate.ANSWERED)
    (kept,) = keeper.sessions.values()
    session._epoch = kept.epoch = 2**31 - 1  # after 34 years of idling
    assert step(session, keeper, wanted, False, Fate.ANSWERED)
    assert session.ask(wanted, by_ids=False).epoch == 1


def test_the_end_names_the_session_and_leaves_none() -> None:
    session, keeper = FetchSession(), Keeper()
    assert session.farewell() is None
    assert step(session, keeper, {("a", 0): FetchPosition(0, 0, -1, 1)}, False, Fate.ANSWERED)
    last = session.farewell()
    assert last is not None
    keeper.asked(last.session_id, last.epoch, last.named, last.forgotten, by_ids=False)
    assert not keeper.sessions
    assert session.farewell() is None
