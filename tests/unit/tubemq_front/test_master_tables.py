"""Every state meets every input: the master's tables leave nothing undefined."""

import itertools

import pytest

from penstock.protocols.tubemq.server import balancing
from penstock.protocols.tubemq.server.balancing import Event, Events, Phase, Stage, Step, Turn
from penstock.protocols.tubemq.wire.rpc import EventType


def test_an_event_has_a_next_stage_for_every_step() -> None:
    assert set(balancing.EVENT_STAGES) == set(itertools.product(Stage, Step))


def test_a_group_has_a_next_phase_for_every_turn() -> None:
    assert set(balancing.GROUP_PHASES) == set(itertools.product(Phase, Turn))


@pytest.mark.parametrize("stage", [Stage.DONE, Stage.DROPPED])
@pytest.mark.parametrize("step", list(Step))
def test_what_is_over_stays_over(stage: Stage, step: Step) -> None:
    assert balancing.EVENT_STAGES[stage, step] is stage


def test_an_event_is_sent_once_until_it_is_acknowledged() -> None:
    queue = Events()
    queue.add("a", [Event(1, EventType.ONLY_CONNECT, ())])
    assert queue.offer("a") is not None
    assert queue.offer("a") is None
    assert queue.acknowledge("a", 1)
    assert len(queue) == 0


def test_what_was_not_sent_cannot_be_acknowledged() -> None:
    queue = Events()
    queue.add("a", [Event(1, EventType.ONLY_CONNECT, ())])
    assert not queue.acknowledge("a", 1)
    assert queue.offer("a") is not None
    assert not queue.acknowledge("a", 2)
    assert len(queue) == 1


def test_nobody_takes_while_somebody_gives_up() -> None:
    queue = Events()
    queue.add("a", [Event(1, EventType.ONLY_DISCONNECT, ())])
    queue.add("b", [Event(1, EventType.ONLY_CONNECT, ())])
    assert queue.offer("b") is None
    assert queue.offer("a") is not None
    assert queue.offer("b") is None
    assert queue.acknowledge("a", 1)
    assert queue.offer("b") is not None
