"""Commits for which no task waits: their order, how they end, and who hears of it."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Callable, Mapping
from contextvars import Context, ContextVar
from queue import SimpleQueue
from typing import Any

import pytest

from penstock import CommitFailed, ConsumerInterceptor
from penstock.client import AsyncConsumer, Consumer, _loop_thread
from penstock.client._committer import Committer
from penstock.client._interrupts import Interrupts
from penstock.client._line import Line
from penstock.client._loop_thread import loop_thread
from penstock.client._member import Member
from penstock.client._member_states import Event, State
from penstock.client._meters import ConsumerMeter
from penstock.config.logs import ClientLog
from penstock.errors import Closed, ErrorKind, FencedError, ServerError, UsageError
from penstock.model import Committed, Partition
from penstock.seams import CommitHeard, CommitRest
from tests.conformance.fake_group import FakeMembership
from tests.conformance.fake_log import FakeLog
from tests.unit.client.test_synchronous_classes import python_hears_ctrl_c

ADDRESS = "fake://h:1"
ZERO = Partition("t", 0)
GRACE_S = 30.0


def at(offset: int) -> dict[Partition, Committed]:
    return {ZERO: Committed(offset)}


class Prompt:
    """A membership whose commits are written at once, and answered by the test."""

    def __init__(self) -> None:
        self.at_once: list[tuple[Mapping[Partition, Committed], CommitHeard]] = []
        self.usual: list[Mapping[Partition, Committed]] = []
        self.ready = True

    def commit_at_once(self, offsets: Mapping[Partition, Committed], heard: CommitHeard) -> bool:
        if self.ready:
            self.at_once.append((offsets, heard))
        return self.ready

    async def commit(self, offsets: Mapping[Partition, Committed]) -> None:
        self.usual.append(offsets)


class Scene:
    def __init__(self, heard: Callable[[Any], None] | None = None) -> None:
        self.membership = Prompt()
        membership: Any = self.membership
        client: Any = None
        self.member = Member(membership, 1_000, lambda: None, lambda error: None)
        self.member.state = State.IN
        self.meter = ConsumerMeter(0.0)
        self.committer = Committer(client, "g", 1, ClientLog("penstock.test", "c"), self.meter, heard)
        self.committer.member = self.member
        self.heard: list[CommitRest | None] = []

    def begin(self, offset: int) -> Any:
        return self.committer.commit_at_once(at(offset), self.heard.append)

    def answer(self, rest: CommitRest | None = None) -> None:
        self.membership.at_once.pop(0)[1](rest)


def in_a_scene(work: Any) -> None:
    async def main() -> None:
        await work(Scene())

    asyncio.run(main())


def test_it_is_through_when_it_is_told_and_counted() -> None:
    async def work(scene: Scene) -> None:
        give_up = scene.begin(5)
        assert (scene.heard, scene.meter.commit.count) == ([], 0)
        scene.answer()
        assert (scene.heard, scene.meter.commit.count, scene.committer._known) == ([None], 1, {ZERO: 5})
        give_up()  # does nothing any more
        assert scene.begin(6) is not None

    in_a_scene(work)


def test_others_wait_for_its_end_in_their_order() -> None:
    async def work(scene: Scene) -> None:
        scene.begin(1)
        assert scene.begin(2) is None
        scene.committer.commit_async(at(3), None)
        fourth = asyncio.ensure_future(scene.committer.commit(at(4)))
        await asyncio.sleep(0.01)
        assert scene.membership.usual == []
        scene.answer()
        assert scene.begin(5) is None  # those that wait come first
        await fourth
        assert scene.membership.usual == [at(3), at(4)]

    in_a_scene(work)


def test_it_does_not_go_past_one_whose_task_has_not_begun() -> None:
    async def work(scene: Scene) -> None:
        scene.committer.commit_async(at(1), None)
        assert scene.begin(2) is None
        await scene.committer.commit(at(2))
        assert scene.membership.usual == [at(1), at(2)]
        await asyncio.sleep(0.01)
        assert scene.begin(3) is not None

    in_a_scene(work)


def test_what_is_left_of_it_still_comes_before_others() -> None:
    async def work(scene: Scene) -> None:
        scene.begin(1)
        again = asyncio.Event()

        async def rest() -> None:
            await again.wait()
            scene.membership.usual.append(at(1))

        second = asyncio.ensure_future(scene.committer.commit(at(2)))
        await asyncio.sleep(0)
        scene.answer(rest)
        (left,) = scene.heard
        assert left is not None
        going_on = asyncio.ensure_future(left())
        await asyncio.sleep(0.01)
        assert (scene.membership.usual, scene.meter.commit.count) == ([], 0)
        again.set()
        await asyncio.gather(going_on, second)
        assert (scene.membership.usual, scene.meter.commit.count) == ([at(1), at(2)], 2)
        assert scene.committer._known == {ZERO: 2}

    in_a_scene(work)


def test_what_it_fails_with_is_raised_and_the_next_one_goes_on() -> None:
    async def work(scene: Scene) -> None:
        for error, told in (
            (ServerError("no", code=25, name="UNKNOWN_MEMBER_ID", kind=ErrorKind.NOT_A_MEMBER), CommitFailed),
            (ServerError("no", code=12, name="OFFSET_METADATA_TOO_LARGE"), ServerError),
            (KeyError("a bug"), KeyError),
        ):

            async def rest(error: Exception = error) -> None:
                raise error

            committing = asyncio.ensure_future(scene.committer.commit(at(1)))
            await asyncio.sleep(0)
            scene.answer(rest)
            with pytest.raises(told):
                await committing
        assert (scene.meter.commit.count, scene.committer._known) == (0, {})
        assert scene.begin(2) is not None

    in_a_scene(work)


def test_who_gives_up_hears_nothing_and_holds_up_nobody() -> None:
    async def work(scene: Scene) -> None:
        scene.begin(1)()
        assert scene.begin(2) is not None
        scene.answer()  # the first one's
        assert (scene.heard, scene.meter.commit.count) == ([], 0)
        assert scene.begin(3) is None  # the second one is still under way
        scene.answer()
        assert scene.heard == [None]

    in_a_scene(work)


def test_what_is_left_need_not_be_done_by_who_gives_up() -> None:
    async def work(scene: Scene) -> None:
        give_up = scene.begin(1)

        async def rest() -> None:
            raise AssertionError("nobody wants it")

        scene.answer(rest)
        assert scene.begin(2) is None
        give_up()
        assert scene.begin(3) is not None

    in_a_scene(work)


@pytest.mark.parametrize("when", ["before its answer", "after it"])
def test_a_cancelled_commit_leaves_the_line(when: str) -> None:
    async def work(scene: Scene) -> None:
        committing = asyncio.ensure_future(scene.committer.commit(at(1)))
        await asyncio.sleep(0)
        if when == "after it":
            scene.answer(lambda: asyncio.sleep(60))
            await asyncio.sleep(0.01)
        committing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await committing
        assert scene.begin(2) is not None

    in_a_scene(work)


@pytest.mark.parametrize(
    "prepare",
    [
        lambda scene: setattr(scene.membership, "ready", False),
        lambda scene: setattr(scene.committer, "member", None),
        lambda scene: setattr(scene.member, "fenced", FencedError("replaced", code=82, name="FENCED_INSTANCE_ID")),
        lambda scene: scene.member.see(Event.LOST, "gone"),
        lambda scene: setattr(scene.committer, "_heard", lambda offsets: None),
        lambda scene: setattr(scene.member, "commit_at_once", None),
    ],
)
def test_what_is_not_plain_is_left_to_the_usual_way(prepare: Callable[[Scene], None]) -> None:
    async def work(scene: Scene) -> None:
        prepare(scene)
        assert scene.begin(1) is None
        assert scene.committer._one_at_a_time.take()  # and is not in its way
        assert scene.membership.at_once == []

    in_a_scene(work)


def test_nothing_is_held_up_by_one_that_could_not_be_begun_for_a_bug() -> None:
    async def work(scene: Scene) -> None:
        def wrong(*_: object) -> bool:
            raise KeyError("a bug")

        scene.member.commit_at_once = wrong
        with pytest.raises(KeyError):
            scene.begin(1)
        assert scene.committer._one_at_a_time.take()

    in_a_scene(work)


def test_a_turn_that_comes_to_who_has_just_been_cancelled_goes_to_the_next() -> None:
    async def main() -> None:
        line, got = Line(), []

        async def wait(number: int) -> None:
            async with line:
                got.append(number)

        assert line.take()
        tasks = [asyncio.ensure_future(wait(number)) for number in range(3)]
        await asyncio.sleep(0)
        tasks[0].cancel()
        line.leave()
        tasks[1].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert got == [2]
        assert line.take()

    asyncio.run(main())


# Of whole consumers. The fake group's members answer when a test lets them.


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

        monkeypatch.setattr(FakeMembership, "commit_at_once", commit_at_once, raising=False)


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
        monkeypatch.setattr(_loop_thread, "_begun", lambda work: tasks.append(work) or work())
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
    waits = threading.Event()

    async def rest() -> None:
        waits.set()
        await asyncio.sleep(3_600)

    gate.rest = rest if left else None
    reader = consumer()
    batch = reader.poll(GRACE_S)

    def close() -> None:
        assert (waits if left else gate.there).wait(GRACE_S)
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
    waits = threading.Event()

    async def rest() -> None:
        waits.set()
        await asyncio.sleep(3_600)

    gate.rest = rest if left else None
    with python_hears_ctrl_c(), consumer() as reader:
        batch = reader.poll(GRACE_S)

        def interrupt() -> None:
            assert (waits if left else gate.there).wait(GRACE_S)
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
    class LateInterrupt(SimpleQueue[object]):
        told = False

        def get(self, block: bool = True, timeout: float | None = None) -> object:
            message = super().get(block, 5)
            if message is None and not self.told:
                self.told = True
                raise KeyboardInterrupt
            return message

    def at_once(heard: Callable[[None], None]) -> Callable[[], None]:
        asyncio.get_running_loop().call_soon(heard, None)
        return lambda: None

    async def work() -> None:
        raise AssertionError("it was begun at once")

    monkeypatch.setattr(_loop_thread, "SimpleQueue", LateInterrupt)
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


def test_a_call_in_no_task_is_ended_once() -> None:
    async def main() -> None:
        interrupts, heard, given_up = Interrupts(), [], []
        tell: list[Callable[[Any], None]] = []

        def at_once(told: Callable[[Any], None]) -> Callable[[], None]:
            tell.append(told)
            return lambda: given_up.append(1)

        assert interrupts.at_once(at_once, heard.append) is not None
        assert interrupts.waiting
        await interrupts.end(Closed("closed"))
        assert (len(heard), given_up, interrupts.waiting) == (1, [1], False)
        with pytest.raises(Closed):
            await heard[0]()
        assert interrupts.at_once(lambda told: None, heard.append) is None
        assert not interrupts.waiting

    asyncio.run(main())
