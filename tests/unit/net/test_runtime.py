"""AsyncioRuntime: promises that survive a cancelled waiter, tasks that end the node, threads that end."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest

from penstock.net.runtime import AsyncioRuntime


def test_cancelling_one_waiter_leaves_the_others_waiting() -> None:
    async def body() -> None:
        runtime = AsyncioRuntime()
        promise = runtime.promise()

        async def wait() -> object:
            return await promise

        first, second = asyncio.ensure_future(wait()), asyncio.ensure_future(wait())
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.sleep(0)
        assert not promise.done
        promise.set("value")
        promise.set("again")
        assert await second == "value"
        assert await promise == "value"

    asyncio.run(body())


def test_a_spawned_task_that_fails_is_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    failures: list[BaseException] = []

    async def body() -> None:
        runtime = AsyncioRuntime(failures.append)

        async def bad() -> None:
            raise RuntimeError("as planned")

        runtime.spawn(bad(), "the bad one")
        while not failures:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0)
        await runtime.stop()

    with caplog.at_level(logging.ERROR):
        asyncio.run(body())
    assert [str(error) for error in failures] == ["as planned"]
    assert "the bad one" in caplog.text


def test_stopping_cancels_tasks_and_ends_threads() -> None:
    async def body() -> None:
        runtime = AsyncioRuntime()
        cancelled: list[str] = []

        async def patient() -> None:
            try:
                await runtime.sleep(1_000)
            except asyncio.CancelledError:
                cancelled.append("patient")
                raise

        runtime.spawn(patient(), "patient")
        thread = await runtime.in_thread(threading.current_thread)
        assert thread is not threading.current_thread()
        await runtime.stop()
        assert cancelled == ["patient"]
        assert not thread.is_alive()

    asyncio.run(body())


def test_timers_can_be_cancelled() -> None:
    async def body() -> None:
        runtime = AsyncioRuntime()
        fired: list[int] = []
        runtime.call_later(0, lambda: fired.append(1))
        runtime.call_later(0, lambda: fired.append(2)).cancel()
        await runtime.sleep(0.01)
        assert fired == [1]
        assert len(runtime.random_bytes(16)) == 16
        assert runtime.now_ms() > 1_600_000_000_000

    asyncio.run(body())
