"""Transactions that a node's death interrupts: decided ones are finished, open ones go on or time out."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock.interfaces.enode import extent
from penstock.model import Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.store import open_store
from tests.unit.kafka_front.kit import serving
from tests.unit.kafka_front.test_transactions import OK, begun
from tests.unit.kafka_front.transaction_kit import FIRST, VERSIONS, Writer, committed_offset, fetch, seen


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("commit", [True, False])
def test_a_node_that_died_between_decision_and_markers_finishes(version: int, commit: bool) -> None:
    async def main() -> None:
        store = open_store("memory:")
        async with serving(store=store) as kit:
            writer = await begun(kit, version)
            assert await writer.commit_offsets("g", "t", 9) == OK
            assert await writer.write("t", b"x") == OK
            ended = await writer.write("t", b"y", partition=1)
            assert ended == OK

            decided = asyncio.Event()

            async def dies(*_: object) -> None:
                decided.set()
                await asyncio.get_running_loop().create_future()

            kit.front._shared.transactions.markers.write = dies  # type: ignore[method-assign]
            asking = asyncio.create_task(writer.end(commit=commit))
            await decided.wait()
            asking.cancel()
        async with serving(store=store) as kit:
            first = await extent(kit.enode, Partition("t", 0))
            assert first.stable == first.end == 2
            assert (await extent(kit.enode, Partition("t", 1))).stable == 2
            assert seen(await fetch(kit, "t")) == ([0] if commit else [])
            assert await committed_offset(kit, "g", "t") == (9 if commit else -1, OK)
            again = Writer(kit, "tx", version)
            assert await again.init() == OK
            assert again.epoch > writer.epoch
            assert await again.write("t", b"z") == OK
            assert await again.end(commit=True) == OK
        store.close()

    asyncio.run(main())


@pytest.mark.parametrize("version", VERSIONS)
def test_an_open_transaction_survives_a_restart_of_the_node(version: int) -> None:
    async def main() -> None:
        store = open_store("memory:")
        async with serving(store=store) as kit:
            writer = await begun(kit, version)
            assert await writer.commit_offsets("g", "t", 9) == OK
            assert await writer.write("t", b"x") == OK
        async with serving(store=store) as kit:
            writer.client = kit
            assert await committed_offset(kit, "g", "t") == (-1, ErrorCode.UNSTABLE_OFFSET_COMMIT)
            assert await writer.write("t", b"y") == OK
            assert await writer.end(commit=True) == OK
            assert seen(await fetch(kit, "t")) == [0, 1]
            assert await committed_offset(kit, "g", "t") == (9, OK)
        store.close()

    asyncio.run(main())


@pytest.mark.lossless("who asks again is too late here")
def test_a_transaction_whose_time_ran_out_while_the_node_was_down_is_aborted(tmp_path: Path) -> None:
    async def main() -> None:
        store = open_store(f"file:{tmp_path}")
        async with serving(store=store) as kit:
            writer = await begun(kit, FIRST)
            assert await writer.init(timeout_ms=300) == OK
            assert await writer.write("t", b"x") == OK
        store.close()
        part = Partition("t", 0)
        store = open_store(f"file:{tmp_path}")
        async with serving(store=store) as kit:
            while (await extent(kit.enode, part)).stable == 0:
                await kit.enode.arrival({part: (await extent(kit.enode, part)).end})
            assert seen(await fetch(kit, "t")) == []
            assert await Writer(kit).init() == OK
        store.close()

    asyncio.run(main())
