"""Members come and go in any order: as long as nobody dies or dawdles, each record is confirmed exactly once."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client import AsyncConsumer
from penstock.config import OptionValue
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import go
from tests.unit.tubemq_consumer.groups import filled, world

STEPS = st.lists(
    st.tuples(st.sampled_from(["poll", "poll", "poll", "come", "go", "write", "wait"]), st.integers(0, 2)), max_size=60
)


@settings(max_examples=30)
@given(STEPS, st.booleans(), st.integers(1, 7))
def test_nothing_is_confirmed_twice_or_forgotten(steps: list[tuple[str, int]], local: bool, window: int) -> None:
    async def work() -> None:
        cluster = filled(60, partitions=2, stores=3)
        cluster.window = lambda: window
        written = 60
        confirmed: Counter[bytes | None] = Counter()
        options: dict[str, OptionValue] = {"confirm_locally": local, "heartbeat_interval_ms": 300}
        async with world(cluster) as w:
            members: dict[int, AsyncConsumer] = {}

            async def one_poll(consumer: AsyncConsumer, timeout_s: float) -> None:
                batch = await consumer.poll(timeout_s)
                await consumer.commit(batch)
                confirmed.update(record.value for record in batch)

            for what, who in steps:
                if what == "come" and who not in members:
                    members[who] = w.consumer("demo", **options)
                elif what == "go" and who in members:
                    await members.pop(who).close()
                elif what == "write":
                    cluster.put("demo", who * 10_000, b"%d" % written)
                    written += 1
                elif what == "wait":
                    await passing(0.5)
                elif who in members:
                    await one_poll(members[who], 0.2)
            members[3] = w.consumer("demo", **options)
            for _ in range(300):
                if sum(confirmed.values()) >= written:
                    break
                for consumer in members.values():
                    await one_poll(consumer, 0.3)
            for consumer in members.values():
                await consumer.close()
            async with w.consumer("demo") as after:
                assert not await after.poll(5)
        assert confirmed == Counter({b"%d" % number: 1 for number in range(written)})
        assert cluster.held == {}

    go(work())
