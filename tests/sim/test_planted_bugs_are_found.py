"""A simulation that finds nothing may be blind: so bugs are planted, one of each kind, and it has to find them."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import ExitStack
from typing import Any
from unittest.mock import patch

import pytest

from penstock.groups import sticky_assignors
from penstock.model import Committed, Partition
from penstock.protocols.kafka.client.membership import KafkaMembership
from penstock.protocols.kafka.consumer_groups import coordinator as newer_coordinator
from penstock.protocols.kafka.consumer_groups import reconciling
from penstock.protocols.kafka.coordinator import Coordinator
from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.consumer_group_log import ConsumerGroupLog
from penstock.seams.offsets import Replayed
from penstock.snode.services import offsets as offsets_service
from tests.sim.play import Outcome, play
from tests.sim.run import SCHEMES
from tests.sim.world import ready_to_simulate

WITHIN = 60
FIRST = 13_000
Plant = tuple[object, str, Callable[..., Any]]


def not_fenced(*_: Any) -> ErrorCode:
    """Whoever commits may."""
    return ErrorCode.NONE


def not_fenced_newer(*_: Any, **__: Any) -> ErrorCode:
    """Whoever commits may."""
    return ErrorCode.NONE


def forgetful() -> Callable[..., list[Replayed]]:
    """Every fourth commit is acknowledged and goes nowhere."""
    turn = itertools.cycle([True, True, True, False])

    def commits(group: str, offsets: Mapping[Partition, Committed]) -> list[Replayed]:
        kept = next(turn)
        return [Replayed(group, partition, committed, None) for partition, committed in offsets.items() if kept]

    return commits


def nothing_withheld(shares: Any, members: Any) -> Any:
    """The leader gives away what others have not given up."""
    return shares


def keeps_all(self: KafkaMembership, owned: Collection[Partition]) -> frozenset[Partition]:
    """An eager member joins with everything in its hands."""
    return frozenset()


async def answered_at_once(self: ConsumerGroupLog, group_id: str) -> None:
    """Heartbeats are answered before anything of them is written."""


PLANTS: dict[str, Callable[[], Plant]] = {
    "a dropped fence": lambda: (Coordinator, "_commit_answer", not_fenced),
    "a lost commit": lambda: (offsets_service, "_commits", forgetful()),
    "a double owner in a cooperative group": lambda: (sticky_assignors, "withhold", nothing_withheld),
    "a double owner in an eager group": lambda: (KafkaMembership, "must_revoke", keeps_all),
}
NEWER: dict[str, Callable[[], Plant]] = {
    "a dropped fence in a newer group": lambda: (newer_coordinator, "commit_fault", not_fenced_newer),
    "a double owner in a newer group": lambda: (reconciling, "_held", lambda *_: False),
    "an answer that nothing stands behind": lambda: (ConsumerGroupLog, "save", answered_at_once),
}
ELSEWHERE = [
    ("a lost commit", "rocketmq"),
    ("a lost commit", "tubemq"),
    *((kind, "kafka-newer") for kind in NEWER),
    ("a double owner in a newer group", "kafka-mixed"),
]
SAID = {
    "a dropped fence": ("is accepted",),
    "a lost commit": ("after its crash the node knows", "goes back from", "nobody wrote it down"),
    "a double owner in a cooperative group": ("has not given up",),
    "a double owner in an eager group": ("has not given up", "goes back from"),
    "a dropped fence in a newer group": ("is accepted", "goes back from"),
    "a double owner in a newer group": ("both own", "has not given up"),
    "an answer that nothing stands behind": ("after its crash",),
}


@pytest.fixture(autouse=True, scope="module")
def _ready() -> None:
    ready_to_simulate(*SCHEMES)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "scheme"), [*((kind, "kafka") for kind in PLANTS), *ELSEWHERE])
def test_a_planted_bug_is_found(kind: str, scheme: str) -> None:
    with ExitStack() as planted:
        planted.enter_context(patch.object(*(PLANTS | NEWER)[kind]()))
        found = next(broken_ones(scheme), None)
    assert found is not None, f"{kind}: not found in {WITHIN} schedules"
    assert any(words in found.broken for words in SAID[kind]), found
    assert not play(found.plan.seed, scheme).broken, "the schedule holds without the bug"


def broken_ones(scheme: str) -> Iterator[Outcome]:
    outcomes = (play(seed, scheme) for seed in range(FIRST, FIRST + WITHIN))
    return (outcome for outcome in outcomes if outcome.broken)
