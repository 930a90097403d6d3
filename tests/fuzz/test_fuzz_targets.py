"""A short walk over every fuzz target, the same each time; ``./dev fuzz`` walks further."""

import asyncio
from random import Random

import pytest

from penstock.errors import ProtocolViolation
from tests.fuzz.mutate import mutant
from tests.fuzz.target import CRASHERS, Target, TooSlow, targets

MUTANTS = 300
OF_SLOW_ONES = {"node": 100, "rocketmq_relayed": 100}
"""Mutants of targets that start a node for each input."""


@pytest.fixture(params=targets(), ids=lambda target: target.name)
def target(request: pytest.FixtureRequest) -> Target:
    found: Target = request.param
    return found


def test_seeds_and_mutants_decode_or_raise_our_error(target: Target) -> None:
    dice = Random(target.name)
    for data in list(target.corpus):
        assert target.attempt(data) is None
    for _ in range(OF_SLOW_ONES.get(target.name, MUTANTS)):
        data, error = target.attempt_mutant(dice)
        assert error is None, data.hex()


def test_what_broke_the_rule_once_does_not_do_it_again(target: Target) -> None:
    for file in target.crashers():
        assert target.attempt(file.read_bytes()) is None, file.name


def test_every_saved_crasher_still_has_its_target() -> None:
    names = {target.name for target in targets()}
    assert {file.name for file in CRASHERS.glob("*.bin") if file.name.rpartition("-")[0] not in names} == set()


def test_a_decoder_that_lets_another_error_out_is_caught() -> None:
    def careless(data: bytes) -> None:
        if len(data) > 70:
            raise IndexError(len(data))
        raise ProtocolViolation("short")

    target = Target("careless", careless, [b"\x00" * 64])
    dice = Random(7)
    assert any(isinstance(target.attempt_mutant(dice)[1], IndexError) for _ in range(500))


def test_a_decoder_that_never_ends_is_caught_in_an_event_loop_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async def busy() -> None:
        while True:
            try:
                await asyncio.sleep(0)
            except Exception:
                continue

    monkeypatch.setattr("tests.fuzz.target.SLOWEST_S", 0.05)
    target = Target("endless", lambda data: asyncio.run(busy()), [b""])
    assert isinstance(target.attempt(b""), TooSlow)


def test_a_seed_repeats_a_run() -> None:
    first, again = ([mutant([b"abcdefgh"], dice, 64) for _ in range(50)] for dice in (Random(3), Random(3)))
    assert first == again
