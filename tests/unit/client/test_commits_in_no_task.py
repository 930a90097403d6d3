"""Commits for which no task waits: their order, how they end, and who hears of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from penstock import CommitFailed
from penstock.client.consumer.by_offset import Committer
from penstock.client.consumer.membership import Event, Member, State
from penstock.client.metrics import ConsumerMeter
from penstock.client.runtime.background_loop import FairLock
from penstock.client.runtime.closing import Interrupts
from penstock.config.client import ClientLog
from penstock.errors import Closed, ErrorKind, FencedError, ServerError
from penstock.interfaces import CommitHeard, CommitRest
from penstock.model import Committed, Partition
from tests.unit.client.virtual_time import passing, run

ZERO = Partition("t", 0)


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

    run(main())


def test_it_is_through_when_it_is_told_and_counted() -> None:
    async def work(scene: Scene) -> None:
        give_up = scene.begin(5)
        assert (scene.heard, scene.meter.commit.count) == ([], 0)
        scene.answer()
        assert (scene.heard, scene.meter.commit.count, scene.committer._known) == ([None], 1, {ZERO: Committed(5)})
        give_up()  # does nothing any more
        assert scene.begin(6) is not None

    in_a_scene(work)


def test_others_wait_for_its_end_in_their_order() -> None:
    async def work(scene: Scene) -> None:
        scene.begin(1)
        assert scene.begin(2) is None
        scene.committer.commit_async(at(3), None)
        fourth = asyncio.ensure_future(scene.committer.commit(at(4)))
        await passing(0.01)
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
        await passing(0.01)
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
        await passing(0.01)
        assert (scene.membership.usual, scene.meter.commit.count) == ([], 0)
        again.set()
        await asyncio.gather(going_on, second)
        assert (scene.membership.usual, scene.meter.commit.count) == ([at(1), at(2)], 2)
        assert scene.committer._known == {ZERO: Committed(2)}

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
            scene.answer(asyncio.Event().wait)
            await passing(0.01)
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
        lambda scene: setattr(scene.member, "commit_at_once", lambda *_: False),
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
        line, got = FairLock(), []

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

    run(main())


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

    run(main())
