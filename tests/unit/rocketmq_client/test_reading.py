"""Reading: polls that wait for whichever queue has something first, and exact ranges by many pulls at once."""

from __future__ import annotations

import asyncio

import pytest

from penstock.client.ranges.range_reader import RangeRead
from penstock.errors import OffsetOutOfRange, ServerError
from penstock.interfaces.client import ReadFrom, ReadLimits
from penstock.model import LogRange, Node, Offset, OffsetSpec, Partition
from penstock.protocols.rocketmq.client.client import RocketClient
from penstock.protocols.rocketmq.wire import rpc
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_client.cluster import Cluster, Queue, Stage, go, stage

ONE, TWO = Partition("demo", 0, "broker-a"), Partition("demo", 1, "broker-a")
QUEUE: Queue = ("demo", "broker-a", 0)
LIMITS = ReadLimits(500, 1, 1 << 22)


def filled(count: int, queue: Queue = QUEUE, **cluster: int) -> Cluster:
    made = Cluster(**cluster)  # type: ignore[arg-type]
    for number in range(count):
        made.put(queue, b"%d" % number)
    return made


def numbers(first: int, end: int) -> list[bytes]:
    return [b"%d" % number for number in range(first, end)]


async def reader(s: Stage, **options: object) -> tuple[RocketClient, Node]:
    client = s.client(**options)
    await client.topics(["demo"])
    node = client.leader(ONE)
    assert node is not None
    return client, node


async def poll(client: RocketClient, node: Node, at: dict[Partition, int]) -> dict[Partition, list[bytes | None]]:
    reads = [ReadFrom(partition, offset, 1 << 20) for partition, offset in at.items()]
    found: dict[Partition, list[bytes | None]] = {}
    for fetched in await client.read(node, reads, LIMITS):
        assert fetched.error is None
        messages, at[fetched.partition] = fetched.decode()
        if messages:
            found[fetched.partition] = [each.value for each in messages]
    return found


async def whole(client: RocketClient, start: int, end: int, partition: Partition = ONE) -> list[bytes | None]:
    read = RangeRead(client, LogRange.of(partition, start, end))
    found: list[bytes | None] = []
    while (messages := await read.next()) is not None:
        found += [each.value for each in messages]
    return found


def test_one_poll_brings_all_that_is_there_by_many_pulls() -> None:
    async def work() -> None:
        async with stage(filled(1_000)) as s:
            client, node = await reader(s)
            assert await poll(client, node, {ONE: 0, TWO: 0}) == {ONE: numbers(0, 1_000)}

    go(work())


def test_a_message_is_there_as_soon_as_it_is_stored_though_another_queue_has_nothing() -> None:
    async def work() -> None:
        async with stage() as s:
            client, node = await reader(s)
            at = {ONE: 0, TWO: 0}
            assert await poll(client, node, at) == {}
            waiting = asyncio.create_task(poll(client, node, at))
            await passing(0.1)
            s.cluster.put(("demo", "broker-a", 1), b"now")
            before = asyncio.get_running_loop().time()
            assert await waiting == {TWO: [b"now"]}
            assert asyncio.get_running_loop().time() - before < 0.01
            # The pull of the other queue has waited at its broker all the time.
            assert [each.queue_id for each in s.cluster.asked(rpc.PULL_MESSAGE)] == [0, 1]

    go(work())


def test_a_broker_that_is_slow_is_not_taken_for_one_that_has_nothing() -> None:
    async def work() -> None:
        async with stage(filled(10)) as s:
            client, node = await reader(s)
            s.cluster.thinks_s = 0.7
            reads = [ReadFrom(ONE, 0, 1 << 20), ReadFrom(TWO, 0, 1 << 20)]
            ends = [
                (fetched.size > 0, fetched.high_watermark)
                for _ in "12"
                for fetched in await client.read(node, reads, LIMITS)
            ]
            assert ends == [(False, 10), (False, 0), (True, 10), (False, 0)]
            # It was asked where they end, and of the one that has nothing no second time.
            assert [each.queue_id for each in s.cluster.asked(rpc.GET_MAX_OFFSET)] == [0, 1]

    go(work())


def test_who_goes_elsewhere_is_not_given_what_was_asked_for_before() -> None:
    async def work() -> None:
        async with stage(filled(10)) as s:
            client, node = await reader(s)
            assert await poll(client, node, {ONE: 10}) == {}
            assert await poll(client, node, {ONE: 7}) == {ONE: numbers(7, 10)}

    go(work())


def test_an_offset_that_is_not_there_is_an_error_of_its_queue_alone() -> None:
    async def work() -> None:
        async with stage(filled(10)) as s:
            s.cluster.lose(QUEUE, 5)
            s.cluster.put(("demo", "broker-a", 1), b"well")
            client, node = await reader(s)
            reads = [ReadFrom(ONE, 2, 1 << 20), ReadFrom(TWO, 0, 1 << 20)]
            ill, well = await client.read(node, reads, LIMITS)
            assert isinstance(ill.error, OffsetOutOfRange)
            assert (ill.error.offset, ill.error.node) == (2, "broker-a")
            assert (well.error, well.size > 0, well.high_watermark) == (None, True, 1)

    go(work())


def test_a_queue_that_is_refused_does_not_take_the_others_with_it() -> None:
    async def work() -> None:
        async with stage(filled(3)) as s:
            s.cluster.refuse[11] = lambda header: 16 if header.queue_id == 1 else None
            client, node = await reader(s)
            well, ill = await client.read(node, [ReadFrom(ONE, 0, 1 << 20), ReadFrom(TWO, 0, 1 << 20)], LIMITS)
            assert (well.error, well.next_offset) == (None, 3)
            assert isinstance(ill.error, ServerError)
            assert ill.error.code == 16

    go(work())


@pytest.mark.parametrize("most", [1, 7, 32])
@pytest.mark.parametrize(("start", "end"), [(0, 1_000), (3, 4), (17, 771), (999, 1_000), (5, 5)])
def test_a_range_is_exactly_what_was_asked_for_however_much_an_answer_brings(most: int, start: int, end: int) -> None:
    async def work() -> None:
        async with stage(filled(1_200, most=most)) as s:
            client, _ = await reader(s)
            assert await whole(client, start, end) == numbers(start, end)
            assert all(each.queue_offset < end for each in s.cluster.asked(rpc.PULL_MESSAGE))

    go(work())


def test_pulls_of_a_range_are_under_way_together() -> None:
    async def work() -> None:
        async with stage(filled(2_000)) as s:
            client, _ = await reader(s, pulls_ahead=8)
            await whole(client, 0, 1_024)
            asked = [each.queue_offset for each in s.cluster.asked(rpc.PULL_MESSAGE)]
            assert sorted(asked) == list(range(0, 1_024, 32))

    go(work())


def test_a_range_that_was_deleted_is_an_error_that_says_where() -> None:
    async def work() -> None:
        async with stage(filled(100)) as s:
            s.cluster.lose(QUEUE, 50)
            client, _ = await reader(s)
            with pytest.raises(OffsetOutOfRange) as caught:
                await whole(client, 40, 60)
            assert caught.value.offset == 40

    go(work())


def test_a_queue_that_ends_too_soon_is_waited_for_and_is_then_an_error() -> None:
    async def work() -> None:
        async with stage(filled(10)) as s:
            client, _ = await reader(s)
            late = asyncio.create_task(whole(client, 0, 12))
            await passing(0.1)
            s.cluster.put(QUEUE, b"10")
            s.cluster.put(QUEUE, b"11")
            assert await late == numbers(0, 12)
            with pytest.raises(OffsetOutOfRange, match="ends at 12"):
                await whole(client, 0, 2_000)

    go(work())


def test_tags_are_compared_once_more() -> None:
    async def work() -> None:
        async with stage() as s:
            for tag in (b"AaAa", b"BBBB", b"AaBB"):  # Java's hashes of these are equal
                s.cluster.put(QUEUE, tag, b"TAGS\x01" + tag)
            client, node = await reader(s, tags="BBBB || other")
            assert await poll(client, node, {ONE: 0}) == {ONE: [b"BBBB"]}
            assert await whole(client, 0, 3) == [b"BBBB"]
            (asked, *_) = s.cluster.asked(rpc.PULL_MESSAGE)
            assert (asked.subscription, asked.expression_type) == ("BBBB || other", "TAG")

    go(work())


def test_ends_are_found_and_a_queue_nobody_has_is_an_error() -> None:
    async def work() -> None:
        async with stage(filled(10)) as s:
            s.cluster.lose(QUEUE, 4)
            client, _ = await reader(s)
            first = await client.offsets({ONE: OffsetSpec(Offset.EARLIEST), TWO: OffsetSpec(Offset.EARLIEST)})
            last = await client.offsets({ONE: OffsetSpec(Offset.LATEST), TWO: OffsetSpec(Offset.LATEST)})
            assert [first[ONE].offset, first[TWO].offset, last[ONE].offset, last[TWO].offset] == [4, 0, 10, 0]
            with pytest.raises(ServerError, match="no broker has such a queue"):
                await client.offsets({Partition("demo", 9, "broker-a"): OffsetSpec(Offset.LATEST)})
            with pytest.raises(ServerError, match="no name server knows it"):
                await client.offsets({Partition("none", 0, "broker-a"): OffsetSpec(Offset.LATEST)})

    go(work())
