"""An enode that is far away lets others go on at every call: what is asked of one place is done as it came."""

import asyncio

import pytest

from penstock.interfaces.enode import FetchPart, fetch_one
from penstock.model import Partition
from penstock.protocols.tubemq.wire.messages import CommitOffsetRequestC2B
from penstock.protocols.tubemq.wire.rpc import COMMIT_OFFSET
from penstock.records.scalar_codec import stored_records
from tests.unit.tubemq_front.kit import Kit, bodies, run
from tests.unit.tubemq_front.web import call

pytestmark = pytest.mark.lossless("what is sent again comes later than what came together")

DEMO = Partition("demo", 0)


def later_ones_first(kit: Kit, name: str) -> None:
    """Have the first call of that name wait until three more have come and gone."""
    waiting = 0

    async def before(call: str) -> None:
        nonlocal waiting
        if call == name:
            waiting += 1
            for _ in range(60 // waiting):
                await asyncio.sleep(0)

    kit.enode.before = before


def test_a_commit_that_follows_a_get_finds_its_batch_delivered() -> None:
    async def test(kit: Kit) -> None:
        await kit.put(b"a", b"b")
        assert (await kit.book()).success
        later_ones_first(kit, "topic")
        request = CommitOffsetRequestC2B(client_id="c", topic_name="demo", partition_id=0, group_name="g")
        got, committed = await asyncio.gather(kit.get(manual_commit_offset=True), kit.ask(COMMIT_OFFSET, request))
        assert bodies(got) == [b"a", b"b"]
        assert committed.curr_offset == 28 * 2

    run(test)


def test_messages_to_a_partition_stand_in_the_log_in_the_order_in_which_they_came() -> None:
    async def test(kit: Kit) -> None:
        later_ones_first(kit, "topic")
        await asyncio.gather(*(kit.put(b"%d" % number) for number in range(4)))
        found = await fetch_one(kit.enode, FetchPart(DEMO, 0, 1 << 20))
        assert [record.value for record in stored_records(found.read(), 0)] == [b"0", b"1", b"2", b"3"]

    run(test)


def test_a_group_that_an_operator_moves_while_a_batch_is_read_stands_where_he_put_it() -> None:
    async def test(kit: Kit) -> None:
        await kit.put(b"a", b"b", b"c")
        assert (await kit.book()).success
        reached, goes_on = asyncio.Event(), asyncio.Event()

        async def before(name: str) -> None:
            if name == "fetch":
                reached.set()
                await goes_on.wait()

        kit.enode.before = before
        getting = asyncio.ensure_future(kit.get())
        await reached.wait()
        order = {"groupName": "g", "modifyUser": "me", "manualSet": "true", "offsetJsonInfo": '{"1:demo:0": 28}'}
        moving = asyncio.ensure_future(call(kit, "admin_set_offset", **order))
        for _ in range(20):
            await asyncio.sleep(0)
        goes_on.set()
        assert bodies(await getting) == [b"a", b"b", b"c"]
        assert (await moving)["result"]
        assert bodies(await kit.get(last_pack_consumed=True)) == [b"b", b"c"]

    run(test)
