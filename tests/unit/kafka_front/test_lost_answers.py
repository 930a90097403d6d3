"""The log answers, and its answers get lost: groups, offsets and transactions are what their clients were told."""

from __future__ import annotations

import asyncio

import pytest

from penstock.errors import UpstreamLost
from penstock.model import Partition
from penstock.store import open_store
from tests.unit.kafka_front.group_kit import commit, member
from tests.unit.kafka_front.kit import Kit, serving
from tests.unit.kafka_front.transaction_kit import VERSIONS, Writer, seen
from tests.unit.kafka_front.transaction_kit import fetch as fetch_one


def lose_every(kit: Kit, number: int) -> None:
    """Of the node's own appends."""
    count = 0

    async def after(call: str) -> None:
        nonlocal count
        count += call == "append"
        if call == "append" and count % number == 0:
            raise UpstreamLost("the answer did not come")

    kit.enode.after = after


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_nothing_that_was_answered_is_lost_and_nothing_fails_for_a_lost_answer(version: int, number: int) -> None:
    async def main() -> None:
        store = open_store("memory:")
        store.create_topic("t", 1)
        async with serving(store=store) as kit:
            lose_every(kit, number)
            joined = await member(kit)
            identity = {"generation_id": joined.generation_id, "member_id": joined.member_id}
            writer = Writer(kit.client(), version=version)
            assert await writer.init() == 0
            for round_ in range(4):
                assert await writer.write("t", b"%d" % round_) == 0
                assert await writer.commit_offsets("g", "t", 10 * round_, **identity) == 0
                assert await writer.end(commit=round_ != 3) == 0
            assert await commit(kit, 7, group_id="alone") == 0
            known = {group: dict(await kit.offsets.committed(group)) for group in ("g", "alone")}
            assert [known[group][Partition("t", 0)].offset for group in known] == [20, 7]
            assert seen(await fetch_one(kit, "t")) == [0, 2, 4]
        async with serving(store=store) as again:
            assert {group: dict(await again.offsets.committed(group)) for group in known} == known
            (it,) = again.front._shared.transactions.all()
            assert (it.producer_id, it.epoch, it.state) == (writer.producer_id, writer.epoch, "CompleteAbort")
            assert list(await again.offsets.saved_groups()) == ["g"]
        store.close()

    asyncio.run(main())
