"""Transactions: halves that nobody reads, their ends in order, and what brokers are told when they ask."""

from __future__ import annotations

import pytest

from penstock.errors import ServerError, UsageError
from penstock.interfaces.client import Sent
from penstock.model import Codec, Committed, GroupMetadata, Node, Partition, Record
from penstock.protocols.rocketmq.client.sender import RocketPacked
from penstock.protocols.rocketmq.client.transactional_sender import RocketTransactionalSender
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire import rpc
from tests.unit.client.virtual_time import passing
from tests.unit.rocketmq_client.cluster import HALVES, Stage, go, stage
from tests.unit.rocketmq_client.test_sending import ONE, QUEUE, TWO, rows

END = rpc.END_TRANSACTION


async def begun(s: Stage) -> tuple[RocketTransactionalSender, Node]:
    client = s.client(publishing=True)
    await client.topics(["demo"])
    node = client.leader(ONE)
    assert node is not None
    sender = client.transactional_sender("tx", 60_000)
    await sender.open()
    sender.begin()
    return sender, node


async def send(sender: RocketTransactionalSender, node: Node, *batches: RocketPacked) -> list[Sent]:
    return list(await sender.send(node, batches, acks=-1, timeout_s=10.0))


def bodies(s: Stage, partition: Partition = ONE) -> list[bytes]:
    return [each.body for each in s.cluster.queues[partition.topic, partition.node, partition.id]]


def test_nothing_is_there_before_the_end_and_everything_in_order_after_it() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await begun(s)
            first = sender.pack(ONE, rows(*(b"%d" % n for n in range(40))), Codec.NONE)
            other = sender.pack(TWO, rows(b"x"), Codec.NONE)
            (sent, _) = await send(sender, node, first, other)
            assert (sent.error, sent.base_offset, sent.offsets) == (None, -1, None)
            await send(sender, node, sender.pack(ONE, rows(b"40"), Codec.NONE))
            assert bodies(s) == []
            halves = s.cluster.queues[HALVES, "broker-a", 0]
            assert {(each.property_map["PGROUP"], each.property_map["TRAN_MSG"]) for each in halves} == {("tx", "true")}
            await sender.end(commit=True)
            assert bodies(s) == [b"%d" % n for n in range(41)]
            assert bodies(s, TWO) == [b"x"]
            await sender.end(commit=True)
            assert len(s.cluster.asked(END)) == 42

    go(work())


def test_what_is_rolled_back_never_is_there() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await begun(s)
            await send(sender, node, sender.pack(ONE, rows(b"a"), Codec.NONE))
            await sender.end(commit=False)
            assert bodies(s) == []
            assert [each.commit_or_rollback for each in s.cluster.asked(END)] == [m.Decision.ROLLBACK]

    go(work())


def test_an_end_that_was_cut_short_goes_on_where_it_was() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await begun(s)
            await send(sender, node, sender.pack(ONE, rows(b"a", b"b", b"c"), Codec.NONE))
            s.cluster.refuse[END.code] = lambda header: 4 if header.tran_state_table_offset == 1 else None
            with pytest.raises(ServerError):
                await sender.end(commit=True)
            assert bodies(s) == [b"a"]
            s.cluster.refuse.clear()
            await sender.end(commit=True)
            assert bodies(s) == [b"a", b"b", b"c"]

    go(work())


def test_brokers_are_told_what_is_decided_and_nothing_before() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, node = await begun(s)
            await send(sender, node, sender.pack(ONE, rows(b"a"), Codec.NONE))

            async def asked() -> list[int]:
                before = len(s.cluster.asked(END))
                s.cluster.ask("tx", 0)
                await passing(0.1)
                await sender.beat()
                await passing(0.1)
                return [each.commit_or_rollback for each in s.cluster.asked(END)[before:]]

            assert await asked() == []  # it is open
            await sender.end(commit=True)
            assert await asked() == []  # the broker knows already, and may not have noted it yet
            await passing(11)
            sender.begin()
            assert await asked() == [m.Decision.COMMIT]
            assert s.cluster.asked(END)[-1].from_transaction_check

    go(work())


@pytest.mark.parametrize(("said", "told"), [(True, [8]), (False, [12]), (None, [])])
def test_what_another_producer_left_the_application_decides(said: bool | None, told: list[int]) -> None:
    async def work() -> None:
        async with stage() as s:
            before, node = await begun(s)
            await send(before, node, before.pack(ONE, rows(b"left", n=b"1"), Codec.NONE))
            sender, _ = await begun(s)
            records: list[Record] = []
            s.cluster.ask("tx", 0)
            await passing(0.1)
            await sender.beat()
            assert s.cluster.asked(END) == []  # nobody is there to say

            async def answer(record: Record) -> bool | None:
                records.append(record)
                return said

            sender.answer_checks(answer)
            s.cluster.ask("tx", 0)
            await passing(0.1)
            await sender.beat()
            await passing(0.1)
            assert [each.commit_or_rollback for each in s.cluster.asked(END)] == told
            assert bodies(s) == ([b"left"] if said else [])
            (record,) = records
            assert (record.topic, record.partition, record.value) == ("demo", 0, b"left")
            assert dict(record.headers) == {"n": b"1"}

    go(work())


def test_what_transactions_cannot_hold_is_refused() -> None:
    async def work() -> None:
        async with stage() as s:
            sender, _ = await begun(s)
            with pytest.raises(UsageError, match="delayed"):
                sender.pack(ONE, rows(b"a", DELAY=b"1"), Codec.NONE)
            with pytest.raises(UsageError, match="no offsets"):
                await sender.add_offsets({ONE: Committed(1)}, GroupMetadata("g"))
            with pytest.raises(UsageError, match="its producer only"):
                sender.prepared()
            assert s.cluster.queues[QUEUE] == []

    go(work())
