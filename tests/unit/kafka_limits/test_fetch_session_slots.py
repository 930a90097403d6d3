"""Which fetch session gives its slot to a new one: Kafka's rules (FetchSessionCache, KIP-227), and our shares."""

import itertools

import pytest

from penstock.concurrency.limits import UNLIMITED, Memory
from penstock.net.flow_control import Budget
from penstock.protocols.kafka.server.fetch_sessions import WATCHED_BYTES, FetchSession, FetchSessions, Key
from penstock.protocols.kafka.wire.fetch import FetchRequestPartition


class Connection:
    """Stands for one."""


def cache(slots: int, memory: Memory = UNLIMITED) -> FetchSessions:
    numbers = itertools.count(2)
    return FetchSessions(slots, lambda size: next(numbers).to_bytes(size, "big"), memory)


def watch(session: FetchSession, first: int, count: int) -> None:
    keys: list[Key] = [("t", number) for number in range(first, first + count)]
    session.update([(key, FetchRequestPartition(partition=key[1])) for key in keys], ())


def begin(
    sessions: FetchSessions, partitions: int, now: float, host: str = "", connection: object = None
) -> FetchSession | None:
    session = sessions.begin(partitions, False, now, host, connection)
    if session is not None:
        watch(session, 0, partitions)
        assert sessions.resized(session, now)
    return session


def use(sessions: FetchSessions, session: FetchSession, now: float) -> None:
    session.advance(now)
    assert sessions.resized(session, now)


@pytest.mark.parametrize(
    ("age_s", "unused_s", "size", "gives_its_slot"),
    [
        (1, 1, 9, False),
        (120, 120, 9, False),
        (121, 121, 9, True),
        (122, 1, 9, False),
        (122, 1, 10, False),
        (122, 1, 11, True),
        (119, 1, 11, False),
    ],
    ids=[
        "it is new",
        "unused for two minutes, and no more",
        "unused for longer",
        "it is old and has more partitions",
        "it is old and has as many",
        "it is old and has fewer",
        "it has fewer and is not old",
    ],
)
def test_which_session_gives_its_slot(age_s: float, unused_s: float, size: int, gives_its_slot: bool) -> None:
    """There is one slot; its session has 10 partitions, the new one ``size``."""
    sessions = cache(1)
    first = begin(sessions, 10, 0)
    assert first is not None
    use(sessions, first, age_s - unused_s)
    second = begin(sessions, size, age_s)
    assert (second is not None) == gives_its_slot
    assert (sessions.get(first.id) is not first) == gives_its_slot
    assert sessions.watched == (size if gives_its_slot else 10)


def test_of_those_that_nobody_uses_the_one_goes_that_was_used_first() -> None:
    sessions = cache(4)
    one, two = begin(sessions, 1, 0, "a"), begin(sessions, 100, 1, "a")
    assert one is not None
    assert two is not None
    begin(sessions, 1, 2, "b"), begin(sessions, 1, 3, "b")
    use(sessions, one, 5)
    assert begin(sessions, 1, 125, "c") is not None
    assert sessions.get(two.id) is not two
    assert sessions.get(one.id) is one


def test_one_address_has_half_of_the_slots() -> None:
    sessions = cache(10)
    assert sum(begin(sessions, 1, 0, "a") is not None for _ in range(10)) == 5
    assert sum(begin(sessions, 1, 0, "b") is not None for _ in range(10)) == 5


def test_a_connection_that_begins_many_loses_its_own() -> None:
    sessions = cache(1_000)
    connection, other = Connection(), Connection()
    first = begin(sessions, 1, 0, "a", connection)
    kept = begin(sessions, 1, 0, "a", other)
    assert first is not None
    assert kept is not None
    for second in range(1, 50):
        assert begin(sessions, 1, second, "a", connection) is not None
    assert len(sessions) == 17
    assert sessions.get(first.id) is not first
    assert sessions.get(kept.id) is kept


def test_sessions_take_an_eighth_of_the_memory_and_one_address_half_of_that() -> None:
    memory = Budget(8 * 1_000 * WATCHED_BYTES)
    sessions = cache(100, memory)
    assert sum(begin(sessions, 100, 0, "a") is not None for _ in range(20)) == 5
    assert sum(begin(sessions, 100, 0, "b") is not None for _ in range(20)) == 5
    assert begin(sessions, 1, 0, "c") is None
    assert memory.used == 1_000 * WATCHED_BYTES
    assert begin(sessions, 100, 121, "c") is not None  # two minutes later nobody has used the others
    for session_id in list(range(1, 100)):
        sessions.remove(session_id)
    assert memory.used == sessions.watched == 0


def test_a_session_that_grows_beyond_its_limit_is_forgotten() -> None:
    """Its client begins a new one, with all it wants, and is told that it has none: it asks in full then."""
    memory = Budget(1 << 30)
    sessions = cache(10, memory)
    session = begin(sessions, 10, 0, "a")
    assert session is not None
    watch(session, 10, 9_990)
    assert sessions.resized(session, 1)
    watch(session, 10_000, 1)
    assert not sessions.resized(session, 2)
    assert sessions.get(session.id) is None
    assert memory.used == 0
    assert begin(sessions, 10_001, 3, "a") is None
