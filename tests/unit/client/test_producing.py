"""Producing in virtual time: batches, order, retries, limits, and what is said when it does not work."""

from __future__ import annotations

import asyncio

import pyarrow as pa
import pytest

from penstock.client import AsyncProducer, BufferFull, Delivery, DeliveryTimeout
from penstock.errors import Closed, ConnectionLost, PenstockError, RequestTimeout, ServerError, UsageError
from penstock.model import LogRange, Partition
from penstock.records import decode_v2
from tests.conformance.fake_log import FakeLog
from tests.unit.client.virtual_time import passing, run

ADDRESS = "fake://h:1"


def stored(log: FakeLog, topic: str = "t", partition: int = 0) -> list[bytes | None]:
    data = b"".join(log.partitions[Partition(topic, partition)].batches)
    values: list[bytes | None] = decode_v2(data).batch.column("value").to_pylist()
    return values


def sends(log: FakeLog) -> list[list[int]]:
    """Records a batch of each request so far."""
    return [[records for _, records in sent] for call, sent in log.calls if call == "send"]  # type: ignore[attr-defined]


def lost() -> PenstockError:
    return ConnectionLost("gone")


def test_records_wait_for_company_no_longer_than_linger(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=50) as producer:
            for number in range(10):
                await producer.send("t", b"%d" % number)
                await passing(0.004)
            assert sends(log) == []
            await passing(0.02)
            assert sends(log) == [[10]]

    run(main())


def test_a_full_batch_does_not_wait(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=10_000, batch_size_bytes=1_000) as producer:
            deliveries = [await producer.send("t", b"x" * 100) for _ in range(60)]
            assert (await deliveries[0]).offset == 0
            assert asyncio.get_running_loop().time() < 1

    run(main())
    assert all(records <= 6 for request in sends(log) for records in request)


def test_flush_does_not_wait_for_linger_and_covers_all(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=60_000, delivery_timeout_ms=200_000) as producer:
            deliveries = [await producer.send("t4", b"%d" % n) for n in range(20)]
            await producer.flush()
            assert all(delivery.done() for delivery in deliveries)
            assert asyncio.get_running_loop().time() < 1

    run(main())


def test_records_without_a_key_fill_one_partition_after_the_other(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, batch_size_bytes=2_000) as producer:
            for _ in range(2_000):
                await producer.send("t4", b"x" * 100)

    run(main())
    counts = [len(stored(log, "t4", partition)) for partition in range(4)]
    assert sum(counts) == 2_000
    assert min(counts) > 100
    # A batch of 2,000 bytes holds eleven such records: each goes to one partition as a whole.
    assert len(sends(log)) < 400


@pytest.mark.parametrize("idempotent", [True, False])
@pytest.mark.parametrize("place", ["send", "acknowledge"])
def test_retries_keep_the_order_and_idempotence_keeps_duplicates_out(
    log: FakeLog, idempotent: bool, place: str
) -> None:
    log.faults[place].extend([None, lost(), None, None, lost(), lost(), None, lost()])

    async def main() -> list[int]:
        async with AsyncProducer(ADDRESS, batch_size_bytes=500, linger_ms=0, enable_idempotence=idempotent) as producer:
            deliveries = [await producer.send("t", b"%03d" % number) for number in range(200)]
            return [(await delivery).offset for delivery in deliveries]

    offsets = run(main())
    if idempotent or place == "send":
        assert stored(log) == [b"%03d" % number for number in range(200)]
        assert offsets == list(range(200))
    else:
        # What was stored but not acknowledged is stored again; nothing overtakes anything.
        firsts = list(dict.fromkeys(stored(log)))
        assert firsts == [b"%03d" % number for number in range(200)]
        assert [stored(log)[offset] for offset in offsets] == firsts


def test_the_second_batch_ever_cannot_overtake_the_first(log: FakeLog) -> None:
    log.delays_s.extend([0.5, 0.0, 0.0])

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            for number in range(3):
                await producer.send("t", b"%d" % number)
                await passing(0.01)

    run(main())
    assert stored(log) == [b"0", b"1", b"2"]


@pytest.mark.parametrize("numbered", [True, False])
def test_only_numbered_batches_follow_each_other_unanswered(
    log: FakeLog, monkeypatch: pytest.MonkeyPatch, numbered: bool
) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            engine = await producer._start()
            monkeypatch.setattr(engine._delivering.readiness, "_numbered", numbered)
            await (await producer.send("t", b"0"))
            log.delays_s.extend([1.0, 1.0, 1.0])
            begun = len(sends(log))
            for number in (1, 2, 3):
                await producer.send("t", b"%d" % number)
                await passing(0.01)
            assert len(sends(log)) - begun == (3 if numbered else 1)

    run(main())
    assert stored(log) == [b"0", b"1", b"2", b"3"]


def test_nothing_new_follows_a_batch_that_is_sent_again(log: FakeLog) -> None:
    """It is stored, unacknowledged, and four behind it are: with more of them the log would not know it any more."""
    log.faults["acknowledge"].extend([None, lost(), None, None, None, None, lost()])

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0, batch_size_bytes=1) as producer:
            await (await producer.send("t", b"00"))
            log.delays_s.extend(0.1 + number / 1_000 for number in range(20))  # answers in the order of sending
            for number in range(1, 16):
                await producer.send("t", b"%02d" % number)

    run(main())
    assert stored(log) == [b"%02d" % number for number in range(16)]


def test_a_batch_that_is_too_large_is_sent_in_halves(log: FakeLog) -> None:
    log.largest_batch = 700

    async def main() -> list[int]:
        async with AsyncProducer(ADDRESS) as producer:
            deliveries = [await producer.send("t", b"%03d" % number + b"x" * 20) for number in range(100)]
            return [(await delivery).offset for delivery in deliveries]

    assert run(main()) == list(range(100))
    assert [int((value or b"")[:3]) for value in stored(log)] == list(range(100))


def refusals(log: FakeLog) -> int:
    """Batches that were sent and are not in the log."""
    return sum(map(len, sends(log))) - sum(len(each.batches) for each in log.partitions.values())


async def send_and_flush(producer: AsyncProducer, count: int, size: int = 100) -> None:
    for number in range(count):
        await producer.send("t", b"%06d" % number + b"x" * (size - 6))
    await producer.flush()


def test_batches_after_one_that_was_too_large_are_small_enough(log: FakeLog) -> None:
    log.largest_batch = 5_000

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=10) as producer:
            await send_and_flush(producer, 2_000)
            assert refusals(log) <= 5 * 7  # requests in flight, each halved from 256 KiB to below 5,000 bytes
            before = refusals(log)
            await send_and_flush(producer, 2_000)
            assert refusals(log) == before

    run(main())
    assert [int((value or b"")[:6]) for value in stored(log)] == [*range(2_000), *range(2_000)]
    data = log.partitions[Partition("t", 0)].batches[10:]
    assert sum(map(len, data)) / len(data) > 1_000  # and not much smaller than they have to be


def test_a_limit_that_was_raised_is_found_again(log: FakeLog) -> None:
    log.largest_batch = 5_000

    async def main() -> list[int]:
        async with AsyncProducer(ADDRESS, linger_ms=10, metadata_max_age_ms=10_000) as producer:
            await send_and_flush(producer, 1_000)
            log.largest_batch = 1 << 20
            for _ in range(8):
                await passing(10)
                await send_and_flush(producer, 10)
            before = len(sends(log))
            await send_and_flush(producer, 1_000)
            return [records for request in sends(log)[before:] for records in request]

    assert run(main()) == [1_000]


def test_one_long_record_does_not_make_all_batches_small(log: FakeLog) -> None:
    log.largest_batch = 50_000

    async def main() -> list[int]:
        async with AsyncProducer(ADDRESS, linger_ms=10) as producer:
            for _ in range(100):
                await producer.send("t", b"x" * 100)
            bad = await producer.send("t", b"y" * 60_000)
            for _ in range(100):
                await producer.send("t", b"x" * 100)
            with pytest.raises(ServerError, match="too large: a record that takes"):
                await producer.flush()
            assert isinstance(bad.exception(), ServerError)
            before = len(sends(log))
            await send_and_flush(producer, 1_000)
            return [records for request in sends(log)[before:] for records in request]

    sizes = run(main())
    assert stored(log).count(b"x" * 100) == 200
    assert min(sizes[:-1]) >= 100


def test_a_refused_record_fails_alone_and_those_behind_it_arrive(log: FakeLog) -> None:
    log.faults["acknowledge"].append(None)
    log.largest_batch = 500

    async def main() -> None:
        async with AsyncProducer(ADDRESS, linger_ms=0) as producer:
            good = await producer.send("t", b"a")
            await good
            bad = await producer.send("t", b"x" * 600)
            await passing(0.001)
            behind = await producer.send("t", b"b")
            with pytest.raises(
                ServerError, match=r"too large: a record that takes [0-9,]+ bytes as a batch of its own"
            ):
                await bad
            assert (await behind).offset == 1

    run(main())


def test_delivery_ends_with_the_last_reason_when_its_time_is_over(log: FakeLog) -> None:
    log.faults["send"].extend(lost() for _ in range(1_000))

    async def main() -> None:
        producer = AsyncProducer(ADDRESS, delivery_timeout_ms=5_000, request_timeout_ms=1_000)
        delivery = await producer.send("t", b"a")
        with pytest.raises(DeliveryTimeout, match=r"delivery_timeout_ms=5000.*gone") as caught:
            await delivery
        assert isinstance(caught.value.__cause__, ConnectionLost)
        assert 5 <= asyncio.get_running_loop().time() < 7
        await producer.close()

    run(main())
    assert ("abandon", Partition("t", 0)) in log.calls


def test_rows_that_never_left_say_so(log: FakeLog) -> None:
    log.faults["open"].append(None)

    async def main() -> None:
        producer = AsyncProducer(ADDRESS, delivery_timeout_ms=5_000, request_timeout_ms=1_000, max_in_flight=1)
        first = await producer.send("t", b"a")
        await first
        # The one request that may be under way is not answered before the record behind it is too old.
        log.delays_s.append(20.0)
        await producer.send("t", b"b")
        await passing(0.05)
        stuck = await producer.send("t", b"c")
        with pytest.raises(DeliveryTimeout):
            await stuck
        assert isinstance(stuck.exception(), DeliveryTimeout)
        assert "never sent" in str(stuck.exception())
        await producer.close()

    run(main())


def test_a_batch_that_failed_once_and_has_no_leader_since_is_given_up_in_time(log: FakeLog) -> None:
    async def main() -> None:
        producer = AsyncProducer(ADDRESS, delivery_timeout_ms=5_000, request_timeout_ms=1_000)
        await (await producer.send("t", b"a"))
        log.faults["send"].append(lost())
        log.faults["topics"].extend(lost() for _ in range(1_000))
        delivery = await producer.send("t", b"b")
        behind = await producer.send("t", b"c")
        await passing(0.01)  # sent, and failed
        assert producer._engine is not None
        producer._engine._client.distrust(Partition("t", 0))
        for each in (delivery, behind):
            with pytest.raises(DeliveryTimeout, match=r"gone.*may be stored all the same"):
                await each
        assert 5 <= asyncio.get_running_loop().time() < 6
        await producer.close()

    run(main())
    assert stored(log) == [b"a"]


def test_memory_is_bounded_and_waiting_for_it_ends(log: FakeLog) -> None:
    log.faults["send"].extend(lost() for _ in range(10_000))

    async def main() -> None:
        options = "buffer_memory_bytes=5000&batch_size_bytes=1000&max_block_ms=2000&max_request_bytes=4000"
        producer = AsyncProducer(f"{ADDRESS}?{options}")
        put: list[Delivery] = []

        async def fill() -> None:
            while True:
                put.append(await producer.send("t", b"x" * 100))

        with pytest.raises(BufferFull, match="max_block_ms=2000"):
            await fill()
        assert 20 <= len(put) <= 50
        log.faults.clear()
        await producer.send("t", b"x")
        await producer.close()

    run(main())
    assert len(stored(log)) >= 21


def test_a_topic_that_does_not_exist_fails_its_own_records_only(log: FakeLog) -> None:
    async def main() -> None:
        producer = AsyncProducer(ADDRESS, max_block_ms=3_000)
        nowhere = await producer.send("nowhere", b"a")
        here = await producer.send("t", b"b")
        assert (await here).offset == 0
        with pytest.raises(UsageError, match=r"no such topic.*create_topics"):
            await nowhere
        await producer.close()

    run(main())


def test_a_topic_that_is_created_in_time_gets_its_records(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            delivery = await producer.send("later", b"a")
            await passing(1.5)
            log.create("later", 1)
            assert (await delivery).topic == "later"

    run(main())


def test_errors_nobody_looked_at_are_raised_by_flush_and_close(log: FakeLog) -> None:
    log.largest_batch = 200

    async def main() -> Delivery:
        async with AsyncProducer(ADDRESS) as producer:
            await producer.send("t", b"x" * 300)
            with pytest.raises(ServerError):
                await producer.flush()
            await producer.flush()
            looked_at = await producer.send("t", b"x" * 300)
            await producer.send("t", b"x")
            with pytest.raises(ServerError):
                await looked_at
            await producer.flush()
            return await producer.send("t", b"x" * 300)

    with pytest.raises(ServerError):
        run(main())


def test_a_sender_that_cannot_open_fails_everything_with_its_reason(log: FakeLog) -> None:
    log.faults["open"].append(ServerError("forbidden", code=31, name="CLUSTER_AUTHORIZATION_FAILED"))

    async def main() -> None:
        producer = AsyncProducer(ADDRESS)
        delivery = await producer.send("t", b"a")
        with pytest.raises(ServerError, match="forbidden"):
            await delivery
        with pytest.raises(ServerError, match="forbidden"):
            await producer.send("t", b"b")
        await producer.close()

    run(main())


def test_close_gives_up_in_time_and_says_what_was_not_sent(log: FakeLog) -> None:
    log.faults["send"].extend(lost() for _ in range(1_000))

    async def main() -> None:
        producer = AsyncProducer(ADDRESS)
        delivery = await producer.send("t", b"a")
        await producer.close(timeout_s=2)
        with pytest.raises(Closed, match="before this was acknowledged"):
            await delivery
        with pytest.raises(Closed):
            await producer.send("t", b"b")
        assert asyncio.get_running_loop().time() <= 2.1

    run(main())


def test_tables_and_single_records_keep_their_order(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, batch_size_bytes=1_000, linger_ms=100) as producer:
            await producer.send("t", b"0")
            table = await producer.send_batch("t", pa.table({"value": [b"%d" % n for n in range(1, 300)]}))
            await producer.send("t", b"300")
            text = await producer.send_batch("t", pa.table({"value": ["301", "302"]}))
            assert await table == (LogRange("t", 0, 1, 300),)
            assert await text == (LogRange("t", 0, 301, 303),)

    run(main())
    assert stored(log) == [b"%d" % number for number in range(303)]


def test_an_empty_table_is_stored_at_once(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            assert await (await producer.send_batch("t", pa.table({"value": pa.array([], pa.binary())}))) == ()

    run(main())
    assert stored(log) == []


def test_without_acknowledgement_no_offset_is_told(log: FakeLog) -> None:
    async def main() -> None:
        async with AsyncProducer(ADDRESS, acks=0, enable_idempotence=False) as producer:
            assert (await (await producer.send("t", b"a"))).offset == -1

    run(main())
    assert stored(log) == [b"a"]


def test_waiting_for_a_delivery_can_end_and_asking_blocks_no_loop(log: FakeLog) -> None:
    log.faults["send"].extend([lost()] * 3)

    async def main() -> None:
        async with AsyncProducer(ADDRESS) as producer:
            delivery = await producer.send("t", b"a")
            told: list[int] = []
            delivery.add_done_callback(lambda each: told.append(each.result().offset))
            with pytest.raises(UsageError, match="Await it instead"):
                delivery.result()
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.05):
                    await delivery
            assert (await delivery).offset == 0
            assert told == [0]
            assert delivery.exception() is None

    run(main())
    assert issubclass(DeliveryTimeout, RequestTimeout)
