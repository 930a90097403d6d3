"""The engine's producer over TubeMQ: heartbeats, rows that are refused for a moment, brokers that are unavailable."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pyarrow as pa
import pytest
from msgspec.structs import replace

from penstock.client.producer.delivery import Delivery
from penstock.client.producer.engine import ProducerEngine
from penstock.config import ProducerConfig
from penstock.errors import ServerError
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import SendMessageResponseB2P
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import FIGURES, SILENCE, Cluster, Stage, go, stage


@dataclass
class Producing:
    stage: Stage
    engine: ProducerEngine

    def send(self, value: bytes, partition: int | None = None) -> Delivery:
        record = self.engine.record("demo", value, None, None, partition, None)
        delivery = self.engine.accumulator.put(*record)
        assert delivery is not None
        return delivery


@asynccontextmanager
async def producing(cluster: Cluster, batch_size_bytes: int = 256 * 1024) -> AsyncIterator[Producing]:
    async with stage(cluster, figures=replace(FIGURES, publishing=True)) as s:
        config = ProducerConfig(
            retry_backoff_ms=10,
            retry_backoff_max_ms=20,
            batch_size_bytes=batch_size_bytes,
            delivery_timeout_ms=40_000,
        )
        engine = ProducerEngine(s.client, config, asyncio.get_running_loop().call_soon)
        try:
            yield Producing(s, engine)
        finally:
            await engine.close(1.0)


def refused(code: int) -> SendMessageResponseB2P:
    return SendMessageResponseB2P(success=False, err_code=code, err_msg="no")


def test_the_master_hears_of_a_producer_that_sends_nothing() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 1)})) as p:
            await p.send(b"x")
            before = len(p.stage.cluster.asked(m.PRODUCER_HEARTBEAT))
            await passing(13 * 4 + 1)
            assert len(p.stage.cluster.asked(m.PRODUCER_HEARTBEAT)) == before + 4
        assert p.stage.cluster.producers == set()

    go(work())


def test_heartbeats_outlive_a_master_that_is_away_for_a_while() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 1)})) as p:
            await p.send(b"x")
            p.stage.cluster.standby.add("master0")
            await passing(60)
            p.stage.cluster.standby.clear()
            p.stage.cluster.producers.clear()
            await passing(60)
            assert p.stage.cluster.producers

    go(work())


def test_each_record_gets_its_own_offset_though_others_write_between() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 1)})) as p:
            first = p.send(b"a")
            await first
            p.stage.cluster.put("demo", 0, b"somebody else's")
            second, third = p.send(b"b"), p.send(b"c")
            assert [(await each).offset for each in (first, second, third)] == [0, 56, 84]

    go(work())


def test_records_refused_for_a_moment_are_stored_in_the_end_and_once() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 1)})) as p:
            left = [5]

            def overflow(request: object) -> SendMessageResponseB2P | None:
                left[0] -= 1
                return refused(419) if left[0] >= 0 and left[0] % 2 else None

            p.stage.cluster.refuse[13] = overflow
            sent = [p.send(b"%d" % number) for number in range(10)]
            offsets = [(await each).offset for each in sent]
            assert len(set(offsets)) == 10
            assert len(p.stage.cluster.stores["demo", 0].records) == 10

    go(work())


def test_one_record_that_is_refused_for_good_takes_no_other_with_it() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 1)})) as p:
            await p.send(b"first")
            p.stage.cluster.refuse[13] = lambda request: refused(400) if b"bad" in request.data else None
            good, bad, fine = p.send(b"good"), p.send(b"bad"), p.send(b"fine")
            assert [(await good).offset, (await fine).offset] == [28, 56]
            with pytest.raises(ServerError) as caught:
                await bad
            assert (caught.value.code, caught.value.topic) == (400, "demo")
            with pytest.raises(ServerError):
                await p.send(b"bad")

    go(work())


def test_records_without_a_partition_go_elsewhere_while_one_is_ill() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 3)})) as p:
            await p.send(b"first")
            ill = [0]
            p.stage.cluster.refuse[13] = lambda request: refused(500) if request.partition_id in ill else None
            for _ in range(5):  # more than three errors in a row
                p.send(b"to the ill one", partition=0)
                await passing(0.05)
            sent = [p.send(b"%d" % number) for number in range(50)]
            assert {(await each).partition for each in sent} <= {1, 2}
            ill.clear()
            await p.engine.flush()

    go(work())


def test_records_that_wait_for_a_partition_in_trouble_move_on_but_not_those_that_must_go_there() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 3)}), batch_size_bytes=400) as p:
            await p.send(b"first")
            ill = [0]
            p.stage.cluster.refuse[13] = lambda request: refused(500) if request.partition_id in ill else None
            named = [p.send(b"named %d" % number, partition=0) for number in range(20)]
            free = [p.send(b"free %d" % number) for number in range(400)]
            await passing(10)
            stored = [delivery for delivery in free if delivery.done()]
            # What was under way to the ill one stays its own: it may be stored there.
            assert len(free) - len(stored) < 20
            assert {(await delivery).partition for delivery in stored} == {1, 2}
            assert not any(delivery.done() for delivery in named)
            ill.clear()
            assert {(await delivery).partition for delivery in named} == {0}
            for delivery in free:
                await delivery
            values = [payload for _, payload, _, _ in p.stage.cluster.stores["demo", 0].records]
            assert len(values) == 421

    go(work())


def test_a_delivery_says_which_broker_has_the_message() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 2)})) as p:
            stored = await p.send(b"x", partition=1)
            assert (stored.node, stored.partition, stored.offset) == ("1", 1, 0)

    go(work())


def test_records_that_are_waited_for_go_round_one_by_one() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (2, 3)})) as p:
            went = [(await p.send(b"%d" % number)).partition for number in range(18)]
            first_round = went[:6]
            assert sorted(first_round) == [0, 1, 2, 10_000, 10_001, 10_002]
            assert went == first_round * 3

    go(work())


@pytest.mark.parametrize("as_table", [False, True])
def test_many_at_once_fill_batches_and_every_partition_gets_its_share(as_table: bool) -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (2, 3)})) as p:
            await p.send(b"first")
            batches: list[int] = []
            pack = p.engine._sender.pack
            p.engine._sender.pack = lambda partition, rows, codec: (  # type: ignore[method-assign]
                batches.append(rows.num_rows) or pack(partition, rows, codec)  # type: ignore[func-returns-value]
            )
            if as_table:
                table = pa.RecordBatch.from_pydict({"value": pa.array([b"x" * 900] * 600, pa.binary())})
                deliveries = [p.engine.accumulator.put_table("demo", table, 540_000)]
            else:
                deliveries = [p.send(b"x" * 900) for _ in range(600)]
            await p.engine.flush()
            del deliveries
            found = Counter(partition for partition, *_ in all_records(p.stage.cluster))
            assert sum(found.values()) == 601
            assert set(found) == {0, 1, 2, 10_000, 10_001, 10_002}
            assert min(found.values()) >= 80
            assert len(batches) <= 60  # ten and more records a batch, not a request's work for each

    go(work())


def test_turns_of_different_sizes_meet_every_partition_alike() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 6)})) as p:
            for _ in range(30):  # a large turn, then five of one record: in step with the ring
                for count in (60, 1, 1, 1, 1, 1):
                    sent = [p.send(b"x" * 20) for _ in range(count)]
                    for delivery in sent:
                        await delivery
            found = Counter(partition for partition, *_ in all_records(p.stage.cluster))
            assert sum(found.values()) == 30 * 65
            assert max(found.values()) < 1.5 * min(found.values())

    go(work())


def test_a_partition_whose_answer_takes_long_is_passed_over() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 3)})) as p:
            await p.send(b"first")
            p.stage.cluster.refuse[13] = lambda request: SILENCE if request.partition_id == 1 else None
            slow = p.send(b"slow", partition=1)
            await passing(0.1)
            went = [(await p.send(b"%d" % number)).partition for number in range(10)]
            assert set(went) == {0, 2}
            p.stage.cluster.refuse.clear()
            await passing(60)
            assert slow.done()

    go(work())


def test_keys_and_named_partitions_stay_where_they_are() -> None:
    async def work() -> None:
        async with producing(Cluster({"demo": (1, 5)})) as p:
            named = [(await p.send(b"x", partition=3)).partition for _ in range(4)]
            assert named == [3] * 4
            records = [p.engine.record("demo", b"x", b"key", None, None, None) for _ in range(4)]
            keyed = [p.engine.accumulator.put(*record) for record in records]
            assert len({(await each).partition for each in keyed if each is not None}) == 1

    go(work())


def all_records(cluster: Cluster) -> list[tuple[int, bytes, int, int]]:
    return [record for store in cluster.stores.values() for record in store.records]
