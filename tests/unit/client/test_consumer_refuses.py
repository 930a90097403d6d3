"""What a consumer cannot read, seek or commit is refused where it is asked for, with the type that came."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from penstock.client import AsyncConsumer
from penstock.errors import UsageError
from penstock.model import Partition
from penstock.records import Messages
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import run

ADDRESS = "fake://h:1"
HERE = Partition("t", 0)
Call = Callable[[AsyncConsumer, Any], Awaitable[object]]


@pytest.mark.parametrize("topics", [b"t", None, 5, [None], [5], [b"t"], "", [], "\ud800"], ids=ascii)
def test_what_is_no_topic_is_not_subscribed(log: FakeLog, topics: Any) -> None:
    async def main() -> None:
        async with AsyncConsumer(ADDRESS) as consumer:
            with pytest.raises(UsageError, match="topic"):
                await consumer.subscribe(topics)
            await consumer.subscribe("t")

    run(main())


@pytest.mark.parametrize("given", ["t", None, 5, ["t"], [("t", 0)], [Partition("t", "0")], [Partition(b"t", 0)], HERE])  # type: ignore[arg-type]
@pytest.mark.parametrize(
    "call",
    [
        lambda consumer, given: consumer.assign(given),
        lambda consumer, given: consumer.pause(given),
        lambda consumer, given: consumer.committed(given),
        lambda consumer, given: consumer.end_offsets(given),
        lambda consumer, given: consumer.beginning_offsets(given),
    ],
    ids=["assign", "pause", "committed", "end_offsets", "beginning_offsets"],
)
def test_what_is_no_partition_is_told(log: FakeLog, given: Any, call: Call) -> None:
    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g") as consumer:
            with pytest.raises(UsageError, match=r"must be|partition"):
                await call(consumer, given)

    run(main())


@pytest.mark.parametrize("given", ["5", 1.5, True, -1, 2**63], ids=repr)
@pytest.mark.parametrize(
    "call",
    [
        lambda consumer, given: consumer.assign({HERE: given}),
        lambda consumer, given: consumer.seek(HERE, given),
        lambda consumer, given: consumer.commit({HERE: given}),
    ],
    ids=["assign", "seek", "commit"],
)
def test_what_is_no_offset_is_told(log: FakeLog, given: Any, call: Call) -> None:
    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g") as consumer:
            await consumer.assign([HERE])
            with pytest.raises(UsageError, match=r"offset"):
                await call(consumer, given)

    run(main())


@pytest.mark.parametrize(
    ("timeout_s", "max_records", "complaint"),
    [("1", None, "number of seconds, got str"), (None, None, "number of seconds, got None"),
     (float("nan"), None, "number of seconds, got nan"), (1, "5", "whole number, got str"),
     (1, 0, "must be 1 or more, got 0"), (1, 2.5, "whole number, got float")],
)  # fmt: skip
def test_what_is_no_limit_of_a_poll_is_told(log: FakeLog, timeout_s: Any, max_records: Any, complaint: str) -> None:
    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t") as consumer:
            with pytest.raises(UsageError, match=complaint):
                await consumer.poll(timeout_s, max_records)

    run(main())


def test_assigning_comes_instead_of_the_topics_of_the_address(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncConsumer(f"{ADDRESS}/t4", group="g") as consumer:
            await consumer.poll(0.5)
            assert len(consumer.assignment()) == 4
            await consumer.assign([HERE])
            assert consumer.assignment() == {HERE}
            assert consumer.subscription() == frozenset()
            await consumer.unsubscribe()
            await consumer.subscribe("t4")
            with pytest.raises(UsageError, match="subscribed already"):
                await consumer.assign([HERE])

    run(main())


def test_a_log_that_takes_nothing_back_says_so(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncConsumer(ADDRESS, group="g") as consumer:
            with pytest.raises(UsageError, match="takes no records back"):
                await consumer.send_back(Messages())
        async with AsyncConsumer(ADDRESS) as consumer:
            with pytest.raises(UsageError, match="no group"):
                await consumer.send_back(Messages())

    run(main())
