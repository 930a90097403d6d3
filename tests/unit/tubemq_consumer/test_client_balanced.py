"""Members that share out by themselves, and applications that choose their partitions, in virtual time."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

import pytest

from penstock.client import AsyncConsumer
from penstock.config import OptionValue
from penstock.errors import ServerError
from penstock.model import Partition
from penstock.protocols.tubemq.client.balancing import share_of
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import (
    GetPartMetaResponseM2C,
    OpsTaskInfo,
    RegisterResponseB2C,
    RegisterResponseM2CV2,
)
from penstock.protocols.tubemq.wire.strings import java_hash, parse_key
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import Held, go
from tests.unit.tubemq_consumer.groups import GroupCluster, Told, filled, world
from tests.unit.tubemq_consumer.test_server_balanced import drain, numbers

ZERO, ONE = Partition("demo", 0, "1"), Partition("demo", 1, "1")


@pytest.mark.parametrize(
    ("text", "found"),
    [("", 0), ("a", 97), ("hello", 99162322), ("1:demo:0", None), ("grüße\N{GRINNING FACE}", None)],
)
def test_javas_hash_of_strings(text: str, found: int | None) -> None:
    units = text.encode("utf-16-be")
    by_hand = 0
    for high, low in zip(units[::2], units[1::2], strict=True):
        by_hand = (by_hand * 31 + high * 256 + low) % 2**32
    assert java_hash(text) == by_hand
    if found is not None:
        assert java_hash(text) == found


def test_shares_are_disjoint_and_complete() -> None:
    everything = [Partition("demo", store * 10_000 + number, "1") for store in range(3) for number in range(5)]
    shares = [share_of(everything, 4, node) for node in range(4)]
    assert sorted(partition for share in shares for partition in share) == everything
    assert share_of(everything, -2, -2) == frozenset(everything)


@pytest.mark.parametrize(
    ("key", "hashed", "of_three", "of_five", "of_six"),
    [
        ("1:flow:0", 2457303117, 0, 2, 3),  # negative in Java: -1837664179
        ("1:demo:0", 2393512898, 2, 3, 2),  # likewise, as the next two
        ("1:demo:10000", 2968981059, 0, 4, 3),
        ("2:orders:1", 2540405540, 2, 0, 2),
        ("1:flow:20000", 510346447, 1, 2, 1),
        ("12:flights:7", 884199015, 0, 0, 3),
        ("3:test_1:50003", 1110684265, 1, 0, 1),
    ],
)
def test_a_partition_is_the_same_members_as_in_java(
    key: str, hashed: int, of_three: int, of_five: int, of_six: int
) -> None:
    # Computed by OpenJDK 17: ((long) key.hashCode()) & 0xffffffffL, and that modulo 3, 5 and 6.
    assert java_hash(key) == hashed
    partition = parse_key(key)
    for count, member in ((3, of_three), (5, of_five), (6, of_six)):
        assert [node for node in range(count) if share_of([partition], count, node)] == [member]


def test_members_take_their_own_shares_at_once() -> None:
    async def work() -> None:
        async with world(filled(24, partitions=4)) as w:
            options = {"client_balance": True, "source_count": 2}
            async with (
                w.consumer("demo", node_id=0, **options) as first,
                w.consumer("demo", node_id=1, **options) as second,
            ):
                begun = asyncio.get_running_loop().time()
                found = [await drain(first, 1), await drain(second, 1)]
                assert asyncio.get_running_loop().time() - begun < 1.5
                everything = w.cluster.partitions(["demo"])
                assert first.assignment() == share_of(everything, 2, 0)
                assert second.assignment() == share_of(everything, 2, 1)
                while sum(map(len, found)) < 24:
                    for consumer in (first, second):
                        batch = await consumer.poll(0.5)
                        found.append(batch.value.to_pylist())
                        await consumer.commit(batch)
                assert sorted(int(value or b"") for values in found for value in values) == list(range(24))
                asked = w.cluster.asked(m.BALANCED_REGISTER)
                assert {(each.source_count, each.node_id) for each in asked} == {(2, 0), (2, 1)}
            assert w.cluster.held == {}

    go(work())


def test_partitions_are_chosen_with_offsets_and_without() -> None:
    async def work() -> None:
        async with world(filled(20)) as w, w.consumer() as consumer:
            assert list(await consumer.partitions_for("demo")) == [ZERO, ONE]
            await consumer.assign({ZERO: 28 * 10})
            assert await consumer.position(ZERO) == 280
            assert await drain(consumer, 5) == [b"10", b"12", b"14", b"16", b"18"]
            await consumer.assign([ZERO, ONE])
            assert await drain(consumer, 10) == numbers(20)[1::2]
            asked = [(each.partition_id, each.HasField("curr_offset")) for each in w.cluster.asked(m.REGISTER_PARTITION)
                     if each.group_name == "g1"]  # fmt: skip
            assert asked == [(0, True), (1, False)]
            await consumer.assign([ONE])
            assert w.cluster.owner(ZERO) is None
            assert w.cluster.owner(ONE) is not None
            await passing(3)
            reports = [list(each.sub_rep_info.part_sub_info) for each in w.cluster.asked(m.BALANCED_HEARTBEAT)
                       if each.sub_rep_info.report_sub_info]  # fmt: skip
            assert reports[-1] == ["demo#1:1"]

    go(work())


def test_a_partition_somebody_else_has_is_told_of_and_asked_for_every_five_seconds() -> None:
    async def work() -> None:
        async with world(filled(4)) as w, w.consumer() as first, w.consumer() as second:
            await first.assign([ZERO])
            await first.position(ZERO)
            await second.assign([ZERO, ONE])
            refused = []
            begun = asyncio.get_running_loop().time()
            while asyncio.get_running_loop().time() < begun + 14:
                try:
                    batch = await second.poll(1)
                    await second.commit(batch)
                except ServerError as error:
                    refused.append(error)
            assert {(error.code, error.partition) for error in refused} == {(410, 0)}
            mine = [each.client_id for each in w.cluster.asked(m.REGISTER_PARTITION) if each.partition_id == 0]
            assert len(mine) - 1 == 3
            await first.close()
            assert await drain(second, 2) == [b"0", b"2"]

    go(work())


@pytest.mark.parametrize(("status", "code"), [(0, 422), (None, 404)])
def test_a_partition_that_may_not_be_read_or_is_not_there_is_an_error(status: int | None, code: int) -> None:
    async def work() -> None:
        async with world(filled(4)) as w, w.consumer() as consumer:
            meta = f"demo#1:1:{1 if status is None else 2}:{1 if status is None else status}"
            w.cluster.refuse[22] = lambda _: GetPartMetaResponseM2C(
                err_code=200, err_msg="", broker_config_id=5, topic_meta_info_id=7, topic_meta_info_list=[meta],
                broker_config_list=w.cluster._brokers(),
            )  # fmt: skip
            await consumer.assign([ONE])
            with pytest.raises(ServerError) as refused:
                await consumer.poll(5)
            assert (refused.value.code, refused.value.partition) == (code, 1)
            w.cluster.refuse.clear()
            await passing(15)
            found = await settled(consumer, 2)
            assert found == [b"1", b"3"]

    go(work())


async def settled(consumer: AsyncConsumer, count: int) -> list[bytes | None]:
    """As ``drain``, past errors that were told of before."""
    for _ in range(100):
        try:
            return await drain(consumer, count)
        except ServerError:
            continue
    raise AssertionError("it never settled")


def test_a_broker_that_forgot_a_chosen_partition_gives_it_again() -> None:
    async def work() -> None:
        async with world(filled(4)) as w, w.consumer() as consumer:
            await consumer.assign([ZERO])
            assert await drain(consumer, 2) == [b"0", b"2"]
            w.cluster.places.update({key: held.committed for key, held in w.cluster.held.items()})
            w.cluster.held.clear()
            w.cluster.put("demo", 0, b"4")
            assert await drain(consumer, 1) == [b"4"]

    go(work())


def test_a_chosen_partition_that_was_taken_away_comes_back_when_it_is_free() -> None:
    async def work() -> None:
        async with world(filled(4)) as w, w.consumer() as consumer:
            await consumer.assign([ZERO])
            assert await drain(consumer, 2) == [b"0", b"2"]
            w.cluster.held["g1", "demo", 0].client = "somebody else"
            with pytest.raises(ServerError) as refused:
                await consumer.poll(20)
            assert refused.value.code == 410
            del w.cluster.held["g1", "demo", 0]
            w.cluster.put("demo", 0, b"4")
            assert (await settled(consumer, 1))[-1] == b"4"

    go(work())


def test_an_operator_sends_the_group_to_the_end() -> None:
    async def work() -> None:
        async with world(filled(20, partitions=1)) as w, w.consumer() as consumer:
            await consumer.assign([ZERO])
            batch = await consumer.poll(5)
            await consumer.commit(batch)
            w.cluster.ops = OpsTaskInfo(csm_frm_max_offset_ctrl_id=1_700_000_000_000 + 3_600_000)
            await passing(3)
            w.cluster.put("demo", 0, b"20")
            while (batch := await consumer.poll(5)).value.to_pylist() != [b"20"]:
                with contextlib.suppress(ServerError):  # of a batch from before the jump
                    await consumer.commit(batch)
            wishes = [each.ops_task_info.csm_frm_max_offset_ctrl_id for each in w.cluster.asked(m.BALANCED_HEARTBEAT)]
            assert wishes[-1] == 1_700_000_000_000 + 3_600_000
            assert sum(each.read_status == 2 for each in w.cluster.asked(m.REGISTER_PARTITION)) == 1

    go(work())


def test_a_topic_that_may_no_longer_be_read_is_given_back_and_comes_again() -> None:
    async def work() -> None:
        async with world(filled(0)) as w, w.consumer(client_balance=True) as consumer:
            told = Told()
            await consumer.subscribe(["demo"], told)
            await consumer.poll(1)
            assert told.heard == [("assigned", [0, 1])]
            shut = GetPartMetaResponseM2C(
                err_code=200,
                err_msg="",
                broker_config_id=5,
                topic_meta_info_id=7,
                topic_meta_info_list=["demo#1:1:2:0"],
            )
            w.cluster.refuse[22] = lambda _: shut
            await consumer.poll(15)
            assert told.heard[1:] == [("revoked", [0, 1])]
            assert w.cluster.held == {}
            w.cluster.refuse.clear()
            await consumer.poll(30)
            assert told.heard[2:] == [("assigned", [0, 1])]

    go(work())


def test_a_master_that_forgot_a_balanced_member_is_told_again() -> None:
    async def work() -> None:
        async with world(filled(0)) as w, w.consumer("demo", client_balance=True) as consumer:
            await consumer.poll(2)
            w.cluster.consumers.clear()
            await consumer.poll(5)
            first, again = w.cluster.asked(m.BALANCED_REGISTER)
            assert first.client_id == again.client_id
            assert list(again.sub_rep_info.part_sub_info) == ["demo#1:0,1:1"]
            assert len(consumer.assignment()) == 2

    go(work())


def test_a_refused_partition_is_not_retried_by_others_meanwhile() -> None:
    async def work() -> None:
        cluster = GroupCluster({"demo": (1, 2)})
        async with world(cluster) as w, w.consumer("demo", client_balance=True) as consumer:
            w.cluster.refuse[15] = lambda request: (
                RegisterResponseB2C(success=False, err_code=410, err_msg="taken", curr_offset=-1)
                if request.partition_id == 1
                else None
            )
            await consumer.poll(12)
            assert consumer.assignment() == {ZERO}
            asked = [each for each in w.cluster.asked(m.REGISTER_PARTITION) if each.partition_id == 1]
            assert len(asked) == 3
            w.cluster.refuse.clear()
            await consumer.poll(6)
            assert consumer.assignment() == {ZERO, ONE}

    go(work())


def ghost(cluster: GroupCluster, until: float) -> None:
    """A killed member has node id 0 of the group until this time, and partition 0 at its broker a second longer."""
    loop = asyncio.get_running_loop()
    cluster.held["g1", "demo", 0] = Held("ghost", 0)

    def refusal(request: Any) -> object:
        if request.group_name != "g1" or request.client_id == "ghost" or loop.time() >= until:
            return None
        return RegisterResponseM2CV2(err_code=430, err_msg="[Inconsistency] nodeId 0 is taken by ghost")

    cluster.refuse[20] = refusal
    loop.call_at(until + 1, cluster.held.pop, ("g1", "demo", 0))


@pytest.mark.parametrize("mode", ["chosen", "allocated"])
def test_a_restarted_member_waits_until_the_master_has_forgotten_the_one_before(
    mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        options: dict[str, OptionValue] = {"source_count": 1, "node_id": 0, "client_balance": True}
        cluster = filled(4)
        async with world(cluster) as w, w.consumer(**options, api_timeout_ms=60_000) as consumer:
            loop = asyncio.get_running_loop()
            ghost(cluster, loop.time() + 30)
            if mode == "chosen":
                await consumer.assign([ZERO, ONE])
                assert 30 <= loop.time() <= 31.5
            else:
                await consumer.subscribe(["demo"])
            found: list[bytes | None] = []
            while len(found) < 4 and loop.time() < 45:
                with contextlib.suppress(ServerError):  # 410: the partition is free a second after the node id
                    batch = await consumer.poll(1)
                    found += batch.value.to_pylist()
                    await consumer.commit(batch)
            assert sorted(found) == numbers(4)

    with caplog.at_level("WARNING", "penstock.group"):
        go(work())
    (line,) = [record.getMessage() for record in caplog.records if "node id" in record.getMessage()]
    assert "Another member of the group has this node id" in line
    assert "30 s" in line


def test_a_node_id_that_stays_taken_is_an_error_when_the_time_of_a_call_is_over() -> None:
    async def work() -> None:
        cluster = filled(4)
        async with world(cluster) as w, w.consumer(source_count=1, node_id=0, api_timeout_ms=20_000) as consumer:
            begun = asyncio.get_running_loop().time()
            ghost(cluster, begun + 3_600)
            with pytest.raises(ServerError, match="give each member a node id of its own") as refused:
                await consumer.assign([ZERO])
            assert refused.value.code == 430
            assert 15 <= asyncio.get_running_loop().time() - begun <= 21

    go(work())


def test_a_restarted_member_with_its_own_consumer_id_takes_its_own_place_at_once() -> None:
    async def work() -> None:
        cluster = filled(4)
        async with world(cluster) as w, w.consumer(source_count=1, node_id=0, consumer_id="ghost") as consumer:
            begun = asyncio.get_running_loop().time()
            ghost(cluster, begun + 30)
            assert consumer.group_metadata().member_id == ""
            await consumer.assign([ZERO])
            assert consumer.group_metadata().member_id == "ghost"
            assert await drain(consumer, 2) == [b"0", b"2"]
            assert asyncio.get_running_loop().time() - begun < 1
            assert {each.client_id for each in cluster.asked(m.BALANCED_REGISTER) if each.group_name == "g1"} == {
                "ghost"
            }

    go(work())


def test_partitions_that_may_not_be_read_now_are_not_available() -> None:
    async def work() -> None:
        async with world(filled(4)) as w, w.consumer() as consumer:
            w.cluster.refuse[22] = lambda _: GetPartMetaResponseM2C(
                err_code=200, err_msg="", broker_config_id=5, topic_meta_info_id=7,
                topic_meta_info_list=["demo#1:1:2:1,2:1:1:1,3:1:1:0"], broker_config_list=w.cluster._brokers(),
            )  # fmt: skip
            away, shut = Partition("demo", 0, "2"), Partition("demo", 0, "3")
            assert set(await consumer.partitions_for("demo")) == {ZERO, ONE, away, shut}
            assert await consumer.available_partitions_for("demo") == (ZERO, ONE)

    go(work())
