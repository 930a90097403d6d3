"""Consumers whose commits need no task: what they answer, and how close, Ctrl-C and wakeup end them or not."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar
from typing import Any

import pytest

from penstock import CommitFailed, ConsumerInterceptor
from penstock.client import AsyncConsumer, Consumer
from penstock.client.runtime import background_loop
from penstock.client.runtime.background_loop import loop_thread
from penstock.errors import Closed, ErrorKind, ServerError, UsageError
from penstock.interfaces import CommitHeard, CommitRest
from penstock.model import Committed, Partition
from tests.conformance import fake_log
from tests.conformance.fake_group import FakeMembership
from tests.conformance.fake_log import FakeLog
from tests.unit.client.test_synchronous_classes import LateInterrupt, python_hears_ctrl_c

ADDRESS = "fake://h:1"
ZERO = Partition("t", 0)
GRACE_S = 30.0


def at(offset: int) -> dict[Partition, Committed]:
    return {ZERO: Committed(offset)}


class Gate:
    """What members of the fake group were asked at once, and their answers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, answers: bool = True) -> None:
        self.answers = answers
        self.begun: list[CommitHeard] = []
        self.there = threading.Event()
        self.rest: CommitRest | None = None

        def commit_at_once(member: FakeMembership, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> bool:
            self.begun.append(heard)
            if self.answers:
                member._group.committed.update(offsets)
                asyncio.get_running_loop().call_soon(heard, self.rest, context=Context())  # a transport's own
            self.there.set()
            return True

        # A class of its own: Python remembers for good which classes it has found to have an ability.
        prompt = type("Prompt", (FakeMembership,), {"commit_at_once": commit_at_once})
        monkeypatch.setattr(fake_log, "FakeMembership", prompt)

    def hang(self) -> threading.Event:
        """What is left of each commit never ends; set once it waits."""
        waits = threading.Event()

        async def rest() -> None:
            waits.set()
            await asyncio.Event().wait()

        self.rest = rest
        return waits


@pytest.fixture
def two(log: FakeLog) -> FakeLog:
    log.write("t", [b"a", b"b"])
    return log


def consumer(**options: Any) -> Consumer[bytes, bytes]:
    return Consumer(f"{ADDRESS}/t", group="g", enable_auto_commit=False, **options)


def test_a_synchronous_commit_makes_no_task(two: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with consumer() as reader:
        batch = reader.poll(GRACE_S)
        tasks: list[object] = []
        monkeypatch.setattr(background_loop, "_begun", lambda work: tasks.append(work) or work())
        for offsets in (batch, None, {ZERO: 2}):
            reader.commit(offsets)
        assert (len(gate.begun), tasks) == (3, [])
        assert two.groups["g"].committed == at(2)
        assert reader.metrics().commit.count == 3
        with pytest.raises(UsageError, match="cannot be committed"):
            reader.commit({ZERO: -1})
        assert len(tasks) == 1  # what is wrong is raised where it always was


def test_callbacks_of_commits_that_are_through_run_first(two: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch)
    with consumer() as reader:
        batch = reader.poll(GRACE_S)
        told: list[object] = []
        reader.commit_async(batch, lambda *_: told.append((threading.current_thread(), len(gate.begun))))
        while not reader._inner._engine.consumption.finished:  # type: ignore[union-attr]
            pass
        reader.commit(batch)
        assert told == [(threading.current_thread(), 0)]
        assert len(gate.begun) == 1


def test_interceptors_hear_of_commits_in_the_context_of_who_commits(
    two: FakeLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    mine: ContextVar[str] = ContextVar("mine", default="nobody's")
    heard: list[object] = []

    class Listens(ConsumerInterceptor):
        def committed(self, offsets: Mapping[Partition, Committed]) -> None:
            heard.append((mine.get(), dict(offsets)))

    Gate(monkeypatch)
    with consumer(interceptors=[Listens()]) as reader:
        batch = reader.poll(GRACE_S)
        mine.set("the caller's")
        reader.commit(batch)
    assert heard == [("the caller's", at(2))]


def test_what_is_left_runs_in_the_context_of_who_commits(two: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    mine: ContextVar[str] = ContextVar("mine", default="nobody's")
    found: list[str] = []
    gate = Gate(monkeypatch)

    async def rest() -> None:
        found.append(mine.get())
        raise ServerError("no", code=25, name="UNKNOWN_MEMBER_ID", kind=ErrorKind.NOT_A_MEMBER)

    gate.rest = rest
    with consumer() as reader:
        batch = reader.poll(GRACE_S)
        mine.set("the caller's")
        with pytest.raises(CommitFailed, match="cannot commit"):
            reader.commit(batch)
        assert found == ["the caller's"]
        gate.rest = None
        reader.commit(batch)


@pytest.mark.parametrize("left", [False, True])
def test_close_from_another_thread_ends_a_commit(two: FakeLog, monkeypatch: pytest.MonkeyPatch, left: bool) -> None:
    gate = Gate(monkeypatch, answers=left)
    waits = gate.hang() if left else gate.there
    reader = consumer()
    batch = reader.poll(GRACE_S)

    def close() -> None:
        assert waits.wait(GRACE_S)
        reader.close(5)

    closing = threading.Thread(target=close)
    closing.start()
    with pytest.raises(Closed):
        reader.commit(batch)
    closing.join(GRACE_S)
    assert not closing.is_alive()


@pytest.mark.parametrize("left", [False, True])
def test_ctrl_c_ends_a_commit_and_the_next_one_need_not_wait(
    two: FakeLog, monkeypatch: pytest.MonkeyPatch, left: bool
) -> None:
    gate = Gate(monkeypatch, answers=left)
    waits = gate.hang() if left else gate.there
    with python_hears_ctrl_c(), consumer() as reader:
        batch = reader.poll(GRACE_S)

        def interrupt() -> None:
            assert waits.wait(GRACE_S)
            os.kill(os.getpid(), signal.SIGINT)

        hand = threading.Thread(target=interrupt)
        hand.start()
        with pytest.raises(KeyboardInterrupt):
            reader.commit(batch)
        hand.join()
        gate.answers, gate.rest = True, None
        reader.commit(batch)
        if not left:
            loop_thread().post(lambda: gate.begun[0](None))  # the answer comes after all, and is nobody's
        reader.commit(batch)
        assert reader.metrics().commit.count == 2


def test_ctrl_c_when_it_is_over_ends_the_call_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def at_once(heard: Callable[[None], None]) -> Callable[[], None]:
        asyncio.get_running_loop().call_soon(heard, None)
        return lambda: None

    async def work() -> None:
        raise AssertionError("it was begun at once")

    monkeypatch.setattr(background_loop, "SimpleQueue", LateInterrupt)
    with pytest.raises(KeyboardInterrupt):
        loop_thread().run_at_once(at_once, work)


def test_a_wakeup_ends_no_commit(two: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, answers=False)
    with consumer() as reader:
        batch = reader.poll(GRACE_S)

        def wake() -> None:
            assert gate.there.wait(GRACE_S)
            reader.wakeup()
            loop_thread().post(lambda: gate.begun[0](None))

        waking = threading.Thread(target=wake)
        waking.start()
        reader.commit(batch)
        waking.join()
        gate.answers = True
        assert reader._inner._interrupts.pending  # the next poll hears of it
        reader._inner._interrupts.pending = False


def test_an_asynchronous_one_likewise(two: FakeLog, monkeypatch: pytest.MonkeyPatch) -> None:
    gate = Gate(monkeypatch, answers=False)

    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t", group="g", enable_auto_commit=False) as reader:
            batch = await reader.poll(GRACE_S)
            committing = asyncio.ensure_future(reader.commit(batch))
            await asyncio.sleep(0)
            closing = asyncio.ensure_future(reader.close())
            with pytest.raises(Closed):
                await committing
            await closing
        assert len(gate.begun) == 1

    asyncio.run(main())
