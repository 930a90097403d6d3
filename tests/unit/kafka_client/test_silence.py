"""A broker that keeps its connections and answers nothing: which requests are missed, and which may take long."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Any

import pytest

from penstock.interfaces.client import ReadFrom, ReadLimits
from penstock.model import Partition
from tests.unit.client import virtual_time
from tests.unit.kafka_client.scripted import stage
from tests.unit.kafka_client.scripted_coordinator import Coordinator, member_of


def said_after(caplog: pytest.LogCaptureFixture, name: str, seconds: float) -> list[str]:
    """What the log hears when the broker stops answering requests of this name, in so many seconds."""

    async def main() -> None:
        async with stage() as it:
            Coordinator(it)
            member = member_of(it)
            asking: Coroutine[Any, Any, Any] = member.join(["events"], [], "start")
            if name not in ("JoinGroup", "SyncGroup"):
                await asking
                asking = member.heartbeat()
            if name == "Fetch":
                asking.close()
                await it.client.topics(["events"])
                leader = it.client.leader(Partition("events", 0))
                assert leader is not None
                reads = [ReadFrom(Partition("events", 0), 0, 1_000)]
                asking = it.client.read(leader, reads, ReadLimits(20_000, 1, 1_000))
            it.broker.answers[name] = lambda request, version: None
            task = asyncio.ensure_future(asking)
            await virtual_time.passing(seconds)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    caplog.clear()
    with caplog.at_level(logging.WARNING, "penstock.connection"):
        virtual_time.run(main())
    return [record.getMessage() for record in caplog.records if record.name == "penstock.connection"]


@pytest.mark.parametrize(("name", "held_s"), [("Heartbeat", 0), ("Fetch", 20)])
def test_silence_is_told_once_it_is_none_that_was_asked_for(
    caplog: pytest.LogCaptureFixture, name: str, held_s: int
) -> None:
    assert said_after(caplog, name, held_s + 4.9) == []
    (line,) = said_after(caplog, name, held_s + 5.1)
    assert "has not answered for 5 s" in line


@pytest.mark.parametrize("name", ["JoinGroup", "SyncGroup"])
def test_a_member_that_waits_for_its_group_misses_nobody(caplog: pytest.LogCaptureFixture, name: str) -> None:
    assert said_after(caplog, name, 304) == []
