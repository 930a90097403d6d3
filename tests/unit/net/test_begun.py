"""Coroutines that are begun in no task: what needs no waiting is done at once, the rest is a task's."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.net.runtime import AsyncioRuntime, SuspendedCoroutine, run_eagerly


async def after(waiting: Coroutine[Any, Any, Any], said: list[object]) -> str:
    try:
        said.append(await waiting)
    except BaseException as error:
        said.append(type(error))
        raise
    return "done"


def test_what_needs_no_waiting_is_done_at_once() -> None:
    async def nothing() -> int:
        return 7

    said: list[object] = []
    assert run_eagerly(after(nothing(), said)) == "done"
    assert said == [7]


def test_what_it_raises_is_raised_at_once() -> None:
    async def bad() -> None:
        raise LookupError("as planned")

    with pytest.raises(LookupError, match="as planned"):
        run_eagerly(after(bad(), []))


@pytest.mark.parametrize("early", [True, False], ids=["before the task runs", "later"])
def test_the_rest_goes_on_in_a_task_once_what_it_waits_for_is_there(early: bool) -> None:
    async def main() -> None:
        runtime = AsyncioRuntime()
        promise = runtime.promise()

        async def wait() -> object:
            first = await promise
            await runtime.sleep(0)
            assert asyncio.current_task() is not None
            return first

        said: list[object] = []
        begun = run_eagerly(after(wait(), said))
        assert isinstance(begun, SuspendedCoroutine)
        if early:
            promise.set(7)
        task = asyncio.ensure_future(begun.rest())
        if not early:
            await asyncio.sleep(0)
            assert said == []
        promise.set(7)
        assert (await task, said) == ("done", [7])

    asyncio.run(main())


def test_several_may_wait_for_one_future() -> None:
    async def main() -> None:
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()

        async def wait() -> int:
            return await future

        begun = [run_eagerly(wait()) for _ in range(3)]
        tasks = [asyncio.ensure_future(each.rest()) for each in begun if isinstance(each, SuspendedCoroutine)]
        await asyncio.sleep(0)
        future.set_result(7)
        assert await asyncio.gather(*tasks) == [7, 7, 7]

    asyncio.run(main())


def test_cancelling_the_task_reaches_the_coroutine() -> None:
    async def main() -> None:
        said: list[object] = []
        begun = run_eagerly(after(asyncio.Event().wait(), said))
        assert isinstance(begun, SuspendedCoroutine)
        task = asyncio.ensure_future(begun.rest())
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert said == [asyncio.CancelledError]

    asyncio.run(main())


def test_work_that_is_begun_and_fails_later_ends_the_node_all_the_same(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[BaseException] = []

    async def main() -> None:
        runtime = AsyncioRuntime(failures.append)

        async def bad(wait: bool) -> None:
            if wait:
                await runtime.sleep(0)
            raise RuntimeError(f"as planned, {wait}")

        runtime.begin(bad(False), "the quick one")
        assert len(failures) == 1
        runtime.begin(bad(True), "the slow one")
        while len(failures) < 2:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0)
        await runtime.stop()

    asyncio.run(main())
    assert [str(error) for error in failures] == ["as planned, False", "as planned, True"]
    assert "the quick one" in caplog.text
    assert "the slow one" in caplog.text
