"""Reading without a group: exact places, bookings that get lost or are taken, brokers that want to be left alone."""

from __future__ import annotations

import pytest

from penstock.client.ranges.range_reader import RangeRead
from penstock.errors import CorruptBatch, OffsetOutOfRange, ServerError, UsageError
from penstock.interfaces.client import ReadFrom, ReadLimits
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import GetMessageResponseB2C, RegisterResponseB2C, TransferedMessage
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import Cluster, Stage, go, stage

ONE = Partition("demo", 0, "1")
LIMITS = ReadLimits(500, 1, 1 << 20)


def filled(records: int, partitions: int = 1) -> Cluster:
    cluster = Cluster({"demo": (1, partitions)})
    for number in range(records):
        cluster.put("demo", number % partitions, b"%d" % number)
    return cluster


async def all_of(s: Stage, wanted: LogRange) -> list[bytes | None]:
    return await rest_of(RangeRead(s.client, wanted))


async def rest_of(read: RangeRead) -> list[bytes | None]:
    found: list[bytes | None] = []
    while (messages := await read.next()) is not None:
        assert len(messages)
        found += messages.value.to_pylist()
    return found


def test_a_range_is_read_exactly_and_its_booking_is_used_again() -> None:
    async def work() -> None:
        async with stage(filled(20)) as s:
            assert await all_of(s, LogRange("demo", 0, 28 * 3, 28 * 12, "1")) == [b"%d" % n for n in range(3, 12)]
            assert await all_of(s, LogRange("demo", 0, 28 * 12, 28 * 20, "1")) == [b"%d" % n for n in range(12, 20)]
            assert len({each.group_name for each in s.cluster.asked(m.REGISTER_PARTITION)}) == 1
            await s.client.close()
            assert s.cluster.held == {}

    go(work())


def test_the_broker_s_name_may_be_left_out_where_only_one_can_be_meant() -> None:
    async def work() -> None:
        async with stage(filled(4)) as s:
            assert len(await all_of(s, LogRange("demo", 0, 0, 28 * 4))) == 4

    go(work())


def test_offsets_between_records_mean_the_next_record() -> None:
    async def work() -> None:
        async with stage(filled(5)) as s:
            assert await all_of(s, LogRange("demo", 0, 29, 28 * 3 + 1, "1")) == [b"2", b"3"]

    go(work())


def test_an_empty_range_asks_nobody() -> None:
    async def work() -> None:
        async with stage(filled(5)) as s:
            assert await all_of(s, LogRange("demo", 0, 28, 28, "1")) == []
            assert s.cluster.seen == []
            with pytest.raises(UsageError):
                RangeRead(s.client, LogRange("demo", 0, 28, 0, "1"))

    go(work())


def test_records_that_retention_deleted_are_an_error() -> None:
    async def work() -> None:
        cluster = filled(10)
        cluster.store("demo", 0).first = 28 * 4
        async with stage(cluster) as s:
            with pytest.raises(OffsetOutOfRange, match="begins at 112") as caught:
                await all_of(s, LogRange("demo", 0, 28, 280, "1"))
            assert (caught.value.topic, caught.value.partition, caught.value.offset) == ("demo", 0, 28)

    go(work())


def test_records_that_are_deleted_under_way_are_an_error_too() -> None:
    async def work() -> None:
        cluster = filled(30)
        async with stage(cluster) as s:
            read = RangeRead(s.client, LogRange("demo", 0, 0, 28 * 30, "1"))
            assert await read.next() is not None
            cluster.store("demo", 0).first = 28 * 25
            with pytest.raises(OffsetOutOfRange):
                await rest_of(read)

    go(work())


def test_a_log_that_ends_too_early_is_waited_for_and_then_an_error() -> None:
    async def work() -> None:
        async with stage(filled(3)) as s:
            with pytest.raises(OffsetOutOfRange, match="ends at 84"):
                await all_of(s, LogRange("demo", 0, 0, 28 * 5, "1"))

    go(work())


def test_a_number_of_a_group_that_is_taken_is_passed_over() -> None:
    async def work() -> None:
        async with stage(filled(3)) as first:
            await first.client.offsets({ONE: OffsetSpec(name=Offset.LATEST)})
            taken = set(first.cluster.held)
            async with stage(first.cluster) as second:
                assert len(await all_of(second, LogRange("demo", 0, 0, 84, "1"))) == 3
                assert len(first.cluster.held.keys() - taken) == 1

    go(work())


def test_when_all_numbers_are_taken_that_is_the_error() -> None:
    async def work() -> None:
        async with stage(filled(3)) as s:
            s.cluster.refuse[15] = lambda request: RegisterResponseB2C(success=False, err_code=410, err_msg="taken")
            with pytest.raises(ServerError) as caught:
                await all_of(s, LogRange("demo", 0, 0, 84, "1"))
            assert caught.value.code == 410

    go(work())


def test_a_booking_that_was_lost_is_made_again_where_it_stood() -> None:
    async def work() -> None:
        async with stage(filled(20)) as s:
            read = RangeRead(s.client, LogRange("demo", 0, 0, 28 * 20, "1"))
            first = await read.next()
            assert first is not None
            s.cluster.held.clear()  # the broker heard nothing for 30 s
            found = [*first.value.to_pylist(), *await rest_of(read)]
            assert found == [b"%d" % n for n in range(20)]

    go(work())


def test_a_broker_that_wants_to_be_left_alone_is() -> None:
    async def work() -> None:
        async with stage(filled(3)) as s:
            left = [3]

            def slow(request: object) -> object:
                left[0] -= 1
                if left[0] < 0:
                    return None
                return GetMessageResponseB2C(success=False, err_code=452, err_msg="slow", min_limit_time=2_000)

            s.cluster.refuse[17] = slow
            begun = s.client.shared.channel.monotonic()
            assert len(await all_of(s, LogRange("demo", 0, 0, 84, "1"))) == 3
            assert s.client.shared.channel.monotonic() - begun >= 2.0

    go(work())


def test_a_damaged_message_is_an_error_that_says_where() -> None:
    async def work() -> None:
        async with stage(filled(6)) as s:
            s.cluster.refuse[17] = lambda request: GetMessageResponseB2C(
                success=True, err_code=200, err_msg="", curr_offset=0, max_offset=168,
                messages=[TransferedMessage(message_id=n, check_sum=1, pay_load_data=b"?", flag=0) for n in range(2)],
            )  # fmt: skip
            with pytest.raises(CorruptBatch) as caught:
                await all_of(s, LogRange("demo", 0, 0, 56, "1"))
            assert (caught.value.partition, caught.value.offset) == (0, 0)

    go(work())


def test_ends_of_a_log_are_found_and_times_are_not() -> None:
    async def work() -> None:
        cluster = filled(10)
        cluster.store("demo", 0).first = 56
        async with stage(cluster) as s:
            names = {Offset.EARLIEST: 56, Offset.LATEST: 280}
            for name, offset in names.items():
                assert (await s.client.offsets({ONE: OffsetSpec(name=name)}))[ONE].offset == offset
            with pytest.raises(UsageError, match="by time"):
                await s.client.offsets({ONE: OffsetSpec(timestamp_ms=5)})

    go(work())


def test_a_poll_waits_for_records_and_goes_on_where_it_was() -> None:
    async def work() -> None:
        async with stage(filled(2)) as s:
            node = (await s.client.topics(["demo"]))["demo"].partitions[0].leader
            assert node is not None
            (found,) = await s.client.read(node, [ReadFrom(ONE, 0, 1)], LIMITS)
            messages, following = found.decode()
            assert (messages.value.to_pylist(), following, found.high_watermark) == ([b"0", b"1"], 56, 56)
            begun = s.client.shared.channel.monotonic()
            (empty,) = await s.client.read(node, [ReadFrom(ONE, 56, 1)], LIMITS)
            assert (empty.size, empty.next_offset) == (0, 56)
            assert s.client.shared.channel.monotonic() - begun >= 0.5
            s.cluster.put("demo", 0, b"2")
            (more,) = await s.client.read(node, [ReadFrom(ONE, 56, 1)], LIMITS)
            assert more.decode()[0].value.to_pylist() == [b"2"]
            assert len(s.cluster.asked(m.REGISTER_PARTITION)) == 1

    go(work())


def test_a_poll_elsewhere_moves_there_and_an_offset_that_is_gone_is_the_partition_s_error() -> None:
    async def work() -> None:
        cluster = filled(10, partitions=2)
        cluster.store("demo", 0).first = 56
        async with stage(cluster) as s:
            node = (await s.client.topics(["demo"]))["demo"].partitions[0].leader
            assert node is not None
            two = Partition("demo", 1, "1")
            gone, good = await s.client.read(node, [ReadFrom(ONE, 0, 1), ReadFrom(two, 140, 1)], LIMITS)
            assert isinstance(gone.error, OffsetOutOfRange)
            with pytest.raises(OffsetOutOfRange):
                gone.decode()
            assert good.decode()[0].value.to_pylist() == [b"5", b"7", b"9"]

    go(work())


def test_bookings_time_out_only_when_nobody_reads() -> None:
    async def work() -> None:
        async with stage(filled(4)) as s:
            read = RangeRead(s.client, LogRange("demo", 0, 0, 56, "1"))
            assert await read.next() is not None
            await passing(60)
            assert await read.next() is None

    go(work())
