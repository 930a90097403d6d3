"""Before a log that does not look at producers' numbers, nothing is stored behind what failed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from penstock.errors import OutOfOrderSequence, PenstockError, UpstreamLost
from penstock.interfaces.enode import Abilities, Appended, Batch, Stored
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server import front
from penstock.protocols.kafka.server.front import FailedSequences, Numbers, numbers_of
from tests.unit.kafka_front.kit import Kit, batch, run

HOME = Partition("t", 0)
LOST = UpstreamLost("the broker is away")


def test_a_batch_says_who_wrote_it() -> None:
    assert numbers_of(batch(producer=(7, 2, 30))) == Numbers(7, 2, 30)
    assert [numbers_of(each) for each in (None, b"", b"short", batch())] == [None] * 4


def test_what_follows_a_failure_waits_until_that_has_come_again() -> None:
    those = FailedSequences()
    assert not those
    those.note(HOME, Numbers(7, 0, 10), LOST)
    for first in (11, 20, 9):
        with pytest.raises(OutOfOrderSequence, match=rf"sent number {first}, and 10 is not stored yet"):
            those.check(HOME, Numbers(7, 0, first))
    those.check(HOME, Numbers(8, 0, 11))
    those.check(Partition("t", 1), Numbers(7, 0, 11))
    those.check(HOME, Numbers(7, 0, 10))
    those.note(HOME, Numbers(7, 0, 20), OutOfOrderSequence("that was refused"))
    those.note(HOME, Numbers(7, 0, 20), None)  # it was on its way already, by another connection
    those.note(HOME, Numbers(7, 0, 10), LOST)
    with pytest.raises(OutOfOrderSequence):
        those.check(HOME, Numbers(7, 0, 20))
    those.note(HOME, Numbers(7, 0, 10), None)
    assert not those
    those.check(HOME, Numbers(7, 0, 20))


def test_a_producer_that_began_anew_knows() -> None:
    those = FailedSequences()
    those.note(HOME, Numbers(7, 0, 10), LOST)
    those.check(HOME, Numbers(7, 1, 0))
    those.note(HOME, Numbers(7, 1, 0), LOST)
    with pytest.raises(OutOfOrderSequence):
        those.check(HOME, Numbers(7, 0, 10))
    those.note(HOME, Numbers(7, 1, 0), None)
    assert not those


def test_so_many_failures_are_remembered_and_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(front, "MAX_FAILED", 2)
    those = FailedSequences()
    for number in range(3):
        those.note(HOME, Numbers(number, 0, 10), LOST)
    those.check(HOME, Numbers(0, 0, 11))
    for number in (1, 2):
        with pytest.raises(OutOfOrderSequence):
            those.check(HOME, Numbers(number, 0, 11))


@pytest.mark.parametrize("looks", [False, True])
@pytest.mark.near
def test_a_producer_is_told_and_the_log_is_not_asked(looks: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    away = True

    async def append_all(_: object, batches: Sequence[tuple[Partition, Batch]]) -> list[Appended | PenstockError]:
        found = [numbers_of(bytes(each.data)) for _, each in batches]  # type: ignore[union-attr]
        seen.extend(each.first for each in found if each is not None)
        return [LOST if away and each is not None else Stored(5, 5) for each in found]

    async def test(kit: Kit) -> None:
        nonlocal away
        kit.store.create_topic("t", 1)
        monkeypatch.setattr(type(kit.enode), "append_all", append_all)
        first, second = batch(producer=(7, 0, 0)), batch(producer=(7, 0, 1))
        told = await kit.produce("t", first)
        assert told.error_code != ErrorCode.NONE
        away = False
        told = await kit.produce("t", second)
        assert told.error_code == (ErrorCode.NONE if looks else ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        assert (await kit.produce("t", batch())).error_code == ErrorCode.NONE
        for each in (first, second):
            assert (await kit.produce("t", each)).error_code == ErrorCode.NONE
        assert seen == ([0, 1, 0, 1] if looks else [0, 0, 1])

    run(test, able=Abilities(sequences=looks))
