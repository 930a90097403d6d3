"""Whatever a reader does and whatever fails: polls return each partition's records in a row, from its position on."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from penstock.client import AsyncConsumer
from penstock.errors import ConnectionLost, PenstockError, RequestTimeout, ServerError
from penstock.model import Partition
from penstock.protocols import register
from tests.conformance.fake_log import FakeLog, FakeLogs
from tests.unit.client.virtual_time import passing, run

PARTITIONS = 3

partition = st.integers(0, PARTITIONS - 1)
step = st.one_of(
    st.tuples(st.just("write"), partition, st.integers(1, 20)),
    st.tuples(st.just("poll"), partition, st.integers(1, 30)),
    st.tuples(st.just("seek"), partition, st.integers(0, 100)),
    st.tuples(st.just("pause"), partition, st.just(0)),
    st.tuples(st.just("resume"), partition, st.just(0)),
    st.tuples(st.just("wait"), partition, st.integers(0, 3)),
    st.tuples(st.just("lose"), partition, st.just(0)),
    st.tuples(st.just("move"), partition, st.just(0)),
)


class Reader:
    """A consumer and what must be true of it."""

    def __init__(self, log: FakeLog, consumer: AsyncConsumer) -> None:
        self.log = log
        self.consumer = consumer
        self.positions = dict.fromkeys(range(PARTITIONS), 0)
        self.paused: set[int] = set()

    def end(self, number: int) -> int:
        return self.log.partitions[Partition("t", number)].end

    async def take(self, name: str, number: int, amount: int) -> None:
        where = Partition("t", number)
        match name:
            case "write":
                first = self.end(number)
                self.log.write("t", [b"%d" % (first + n) for n in range(amount)], number)
            case "poll":
                await self.poll(amount)
            case "seek":
                offset = amount * self.end(number) // 100
                await self.consumer.seek(where, offset)
                self.positions[number] = offset
                # An answer from before the seek, which nobody must see, is on its way now.
                self.log.write("t", [b"%d" % self.end(number)], number)
            case "pause":
                await self.consumer.pause([where])
                self.paused.add(number)
            case "resume":
                await self.consumer.resume([where])
                self.paused.discard(number)
            case "wait":
                await passing(amount)
            case "lose":
                errors: tuple[PenstockError, ...] = (ConnectionLost("gone"), RequestTimeout("late"))
                self.log.faults["read"].append(errors[number % 2])
            case "move":
                moved = ServerError("moved", code=6, name="NOT_LEADER", retriable=True)
                self.log.faults["fetch"].extend([None] * number + [moved])

    async def poll(self, most: int, timeout_s: float = 0.5) -> int:
        batch = await self.consumer.poll(timeout_s, max_records=most)
        assert len(batch) <= most
        for record in batch:
            assert record.partition not in self.paused
            assert record.offset == self.positions[record.partition]
            assert record.value == b"%d" % record.offset
            self.positions[record.partition] += 1
        for number, position in self.positions.items():
            assert await self.consumer.position(Partition("t", number)) == position
        return len(batch)

    async def drain(self) -> None:
        await self.consumer.resume(list(self.consumer.assignment()))
        self.paused.clear()
        left = sum(self.end(number) - position for number, position in self.positions.items())
        while left:
            taken = await self.poll(1_000, timeout_s=30)
            assert taken, f"{left} records never come"
            left -= taken


@given(steps=st.lists(step, max_size=30), fetch_bytes=st.sampled_from([1_024, 4_096]), buffer_bytes=st.just(4_096))
def test_polls_return_records_in_a_row_and_all_of_them(
    steps: Sequence[tuple[str, int, int]], fetch_bytes: int, buffer_bytes: int
) -> None:
    logs = FakeLogs()
    register(logs.protocol())
    log = logs.logs["h"]
    log.create("t", PARTITIONS)

    async def main() -> None:
        options = f"max_partition_fetch_bytes={fetch_bytes}&fetch_buffer_bytes={buffer_bytes}"
        async with AsyncConsumer(f"fake://h:1?{options}") as consumer:
            await consumer.assign({Partition("t", number): 0 for number in range(PARTITIONS)})
            reader = Reader(log, consumer)
            for each in steps:
                await reader.take(*each)
            await reader.drain()

    run(main())
