"""Batches that cost much to look into: nobody else waits for them, and none inflates to more than its topic allows."""

import asyncio
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import CorruptBatch
from penstock.model import Codec
from penstock.net.server import Budget
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest
from penstock.records import compression
from penstock.records.compression import Arena, compress
from penstock.records.validation import record_heads, walk_records
from tests.unit.kafka_front.kit import Kit, batch, record, run

pytestmark = pytest.mark.near  # it is about the other threads that inflate

MB = 1 << 20
CODECS = [Codec.GZIP, Codec.LZ4, Codec.ZSTD]


def packed(codec: Codec, size: int, count: int = 1) -> bytes:
    """A batch of ``count`` records, together about ``size`` bytes, that compress to next to nothing."""
    plain = b"".join(record(delta, b"k", bytes(size // count)) for delta in range(count))
    return batch(records=bytes(compress(codec, plain)) if codec else plain, attributes=codec, count=count)


@pytest.mark.parametrize("codec", CODECS)
def test_a_batch_that_inflates_to_far_more_than_the_topic_takes_is_refused(codec: Codec) -> None:
    bomb = packed(codec, 64 * MB)
    assert len(bomb) < MB

    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 1, {})
        answer = await kit.produce("t", bomb)
        assert answer.error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert "inflates" in (answer.error_message or "")
        assert kit.store.log("t", 0).end_offset == 0

    run(test)


@pytest.mark.parametrize("codec", [Codec.NONE, *CODECS])
def test_a_topic_bounds_records_of_compressed_batches_each_by_itself(codec: Codec) -> None:
    """``max.decompressed.message.bytes``, as Kafka 4.4.0: plain batches are not looked at."""

    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 1, {"max.decompressed.message.bytes": "5000"})
        assert (await kit.produce("t", packed(codec, 40_000, 10))).error_code == ErrorCode.NONE
        answer = await kit.produce("t", packed(codec, 5_001))
        assert answer.error_code == (ErrorCode.INVALID_RECORD if codec else ErrorCode.NONE)

    run(test)


def test_what_a_batch_may_inflate_to_follows_what_its_topic_takes() -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("large", 1, {"max.message.bytes": str(8 * MB)})
        await kit.enode.create_topic("small", 1, {"max.message.bytes": "10000"})
        tens = packed(Codec.ZSTD, 40 * MB)
        assert (await kit.produce("large", tens)).error_code == 0
        assert (await kit.produce("small", tens)).error_code == ErrorCode.MESSAGE_TOO_LARGE
        assert (await kit.produce("small", packed(Codec.ZSTD, MB // 2))).error_code == 0

    run(test)


@pytest.mark.parametrize(
    "costly",
    [
        pytest.param(packed(Codec.ZSTD, 20 * MB), id="inflates far"),
        pytest.param(packed(Codec.ZSTD, 20 * MB, 1_000), id="inflates far, many"),
        pytest.param(batch([b""] * 60_000), id="many records"),
    ],
)
@pytest.mark.parametrize("policy", ["delete", "compact"])
def test_others_are_answered_while_a_costly_batch_is_looked_into(costly: bytes, policy: str) -> None:
    """The look is held until the others have their answers; on the loop it could not be, and would end before them."""

    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 1, {"cleanup.policy": policy})
        begun, answered = asyncio.Event(), asyncio.Event()
        looks: list[Callable[[], None]] = []
        run_in_worker = kit.front._shared.worker.run

        async def held(look: Callable[[], None], holds: int) -> None:
            looks.append(look)
            begun.set()
            await answered.wait()
            await run_in_worker(look, holds)

        async def small() -> None:
            await begun.wait()
            for _ in range(3):
                await kit.client().ask(ApiVersionsRequest(), 0)
            answered.set()

        kit.front._shared.worker.run = held  # type: ignore[method-assign, assignment]
        async with asyncio.timeout(30):
            answer, _ = await asyncio.gather(kit.produce("t", costly), small())
        assert answer.error_code == 0
        assert len(looks) == 1

    run(test)


def test_a_small_batch_is_looked_into_at_once() -> None:
    """A thread would cost it more than the look."""

    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 1, {})
        await kit.produce("t", packed(Codec.ZSTD, 100))
        given = []
        kit.front._shared.worker.run = given.append  # type: ignore[method-assign, assignment]
        for codec in (*CODECS, Codec.SNAPPY):
            assert (await kit.produce("t", packed(codec, 10_000, 10))).error_code == 0
        assert (await kit.produce("t", batch([b"x" * 1_000] * 500))).error_code == 0
        assert given == []

    run(test, KafkaFrontOptions())


def test_records_that_a_header_does_not_admit_to_are_not_counted() -> None:
    plain = b"".join(record(delta, b"k", b"") for delta in range(1_000))
    assert walk_records(plain, 1_000) == (0, 0)
    with pytest.raises(CorruptBatch, match="more than 1 record"):
        walk_records(record(0, b"k", b"") + bytes(1_000), 1)
    assert len(record_heads(plain, 1)) == 2


def test_what_is_inflated_is_taken_from_the_memory_of_all_connections() -> None:
    """As much as it may take, while it does; of a batch that is not compressed a copy."""

    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 1, {})
        await kit.enode.create_topic("gzip", 1, {"compression.type": "gzip"})
        budget = Budget(512 * MB)
        kit.front._shared.worker._memory = budget
        seen: list[int] = []
        in_thread = kit.runtime.in_thread

        async def watched(work: Callable[[], Any]) -> Any:
            seen.append(budget.used)
            return await in_thread(work)

        kit.runtime.in_thread = watched  # type: ignore[method-assign]
        await kit.produce("t", packed(Codec.ZSTD, 20 * MB))
        await kit.produce("t", packed(Codec.ZSTD, 64 * MB))
        plain = batch([b""] * 60_000)
        await kit.produce("t", plain)
        await kit.produce("gzip", plain)
        assert max(seen) >= 64 * MB
        assert seen[-1] >= len(plain)
        assert budget.used == 0

    run(test)


def test_what_was_inflated_of_a_refused_batch_is_given_back_at_once() -> None:
    async def test(kit: Kit) -> None:
        await kit.enode.create_topic("t", 1, {})
        made: list[weakref.ref[Arena]] = []

        class Watched(Arena):
            def __init__(self, *given: int) -> None:
                super().__init__(*given)
                made.append(weakref.ref(self))

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(compression, "Arena", Watched)
            gc.disable()
            try:
                for _ in range(3):
                    assert (await kit.produce("t", packed(Codec.ZSTD, 64 * MB))).error_code
                assert made
                assert [each() for each in made] == [None] * len(made)
            finally:
                gc.enable()

    run(test)
