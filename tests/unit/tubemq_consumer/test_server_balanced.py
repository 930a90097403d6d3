"""A member whose partitions the master shares out, in virtual time."""

from __future__ import annotations

import logging

import pytest

from penstock.client import AsyncConsumer
from penstock.config import OptionValue
from penstock.errors import ConfigError, ServerError
from penstock.model import Partition
from penstock.protocols.tubemq.wire import rpc as m
from penstock.protocols.tubemq.wire.messages import RegisterResponseB2C, RegisterResponseM2C
from penstock.protocols.tubemq.wire.protobuf import has
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import go
from tests.unit.tubemq_consumer.groups import CONNECT, DISCONNECT, ONLY_DISCONNECT, SCHEME, Told, filled, gets, world

ZERO, ONE = Partition("demo", 0, "1"), Partition("demo", 1, "1")


async def drain(consumer: AsyncConsumer, count: int) -> list[bytes | None]:
    """So many values, each batch confirmed; sorted as numbers."""
    found: list[bytes | None] = []
    while len(found) < count:
        batch = await consumer.poll(30)
        assert batch, f"only {len(found)} came"
        found += batch.value.to_pylist()
        await consumer.commit(batch)
    return sorted(found, key=lambda value: int(value or b"-1"))


def numbers(count: int) -> list[bytes]:
    return [b"%d" % n for n in range(count)]


def test_everything_is_read_once_confirmed_and_given_back() -> None:
    async def work() -> None:
        async with world(filled(20)) as w:
            told = Told()
            async with w.consumer() as consumer:
                await consumer.subscribe(["demo"], told)
                assert await drain(consumer, 20) == numbers(20)
                assert not await consumer.poll(2)
                assert {await consumer.position(each) for each in (ZERO, ONE)} == {28 * 20}
            assert told.heard == [("assigned", [0, 1]), ("revoked", [0, 1])]
            assert (w.cluster.held, w.cluster.members) == ({}, {})
            assert set(w.cluster.places.values()) == {28 * 20}

    go(work())


def test_an_event_is_acknowledged_with_all_that_is_held() -> None:
    async def work() -> None:
        async with world(filled(0, share_out=False)) as w, w.consumer("demo") as consumer:
            await consumer.poll(0.5)
            (name,) = w.cluster.members
            w.cluster.tell(name, CONNECT, ZERO, ONE)
            await consumer.poll(2)
            first, acknowledged = w.cluster.asked(m.CONSUMER_HEARTBEAT)[0], w.cluster.asked(m.CONSUMER_HEARTBEAT)[-2:]
            assert not first.report_subscribe_info
            assert not first.HasField("event")
            (beat,) = [each for each in acknowledged if each.HasField("event")]
            assert (beat.event.rebalance_id, beat.event.op_type, beat.event.status) == (1, CONNECT, 2)
            assert list(beat.event.subscribe_info) == list(beat.subscribe_info)
            assert beat.report_subscribe_info
            assert w.cluster.members[name].holds == {ZERO, ONE} == consumer.assignment()
            w.cluster.tell(name, DISCONNECT, ONE)
            await consumer.poll(2)
            assert w.cluster.members[name].holds == {ZERO} == consumer.assignment()
            assert w.cluster.owner(ONE) is None

    go(work())


def test_two_members_share_and_the_one_that_stays_gets_the_rest_back() -> None:
    async def work() -> None:
        async with world(filled(0, partitions=4)) as w, w.consumer("demo") as first:
            await first.poll(3)
            assert len(first.assignment()) == 4
            async with w.consumer("demo") as second:
                for _ in range(20):
                    await first.poll(0.2)
                    await second.poll(0.2)
                assert len(first.assignment()) == len(second.assignment()) == 2
                assert not first.assignment() & second.assignment()
            await first.poll(3)
            assert len(first.assignment()) == 4

    go(work())


def test_who_works_too_long_on_a_batch_loses_the_partition_and_the_batch_comes_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def work() -> None:
        async with world(filled(4, partitions=1)) as w, w.consumer() as consumer:
            told = Told()
            await consumer.subscribe(["demo"], told)
            batch = await consumer.poll(5)
            await passing(1)  # the event that gave the partition is acknowledged
            w.cluster.share_out = False
            (name,) = w.cluster.members
            w.cluster.tell(name, ONLY_DISCONNECT, ZERO)
            await passing(10)
            assert w.cluster.owner(ZERO) is None
            assert w.cluster.asked(m.REGISTER_PARTITION)[-1].read_status != 0
            assert w.cluster.places["g1", "demo", 0] == 0
            with pytest.raises(ServerError, match="not this consumer's to confirm any more"):
                await consumer.commit(batch)
            w.cluster.share_out = True
            assert await drain(consumer, 4) == numbers(4)
            assert told.heard == [("assigned", [0]), ("lost", [0]), ("assigned", [0])]

    with caplog.at_level(logging.WARNING, "penstock"):
        go(work())
    assert "could not wait to be given back" in caplog.text


def test_a_batch_confirmed_in_time_goes_with_its_partition() -> None:
    async def work() -> None:
        async with world(filled(4, partitions=1)) as w, w.consumer() as consumer:
            told = Told()
            await consumer.subscribe(["demo"], told)
            batch = await consumer.poll(5)
            await passing(1)  # the event that gave the partition is acknowledged
            w.cluster.share_out = False
            (name,) = w.cluster.members
            w.cluster.tell(name, ONLY_DISCONNECT, ZERO)
            await passing(2)
            await consumer.commit(batch)
            await consumer.poll(0.5)
            assert told.heard[-1] == ("revoked", [0])
            assert w.cluster.places["g1", "demo", 0] == 28 * 4
            assert w.cluster.asked(m.REGISTER_PARTITION)[-1].read_status == 0

    go(work())


def test_a_master_that_forgot_us_is_told_what_we_hold() -> None:
    async def work() -> None:
        async with world(filled(0)) as w, w.consumer() as consumer:
            told = Told()
            await consumer.subscribe(["demo"], told)
            await consumer.poll(3)
            w.cluster.members.clear()
            w.cluster.share_out = False
            await consumer.poll(3)
            again = w.cluster.asked(m.CONSUMER_REGISTER)[1:]
            assert [len(each.subscribe_info) for each in again] == [2]
            assert again[0].client_id == w.cluster.asked(m.CONSUMER_REGISTER)[0].client_id
            assert next(iter(w.cluster.members.values())).holds == {ZERO, ONE}
            assert told.heard == [("assigned", [0, 1])]

    go(work())


def test_a_member_that_the_master_does_not_take_back_gives_up_all_it_has() -> None:
    async def work() -> None:
        async with world(filled(0)) as w, w.consumer() as consumer:
            told = Told()
            await consumer.subscribe(["demo"], told)
            await consumer.poll(3)
            w.cluster.refuse[4] = lambda _: RegisterResponseM2C(success=False, err_code=450, err_msg="not allowed")
            w.cluster.members.clear()
            with pytest.raises(ServerError, match="CONSUME_GROUP_FORBIDDEN"):
                await consumer.poll(10)
            assert told.heard == [("assigned", [0, 1]), ("lost", [0, 1])]
            assert w.cluster.held == {}
            w.cluster.refuse.clear()
            await consumer.poll(3)
            assert told.heard[2:] == [("assigned", [0, 1])]

    go(work())


def test_a_broker_that_forgot_us_is_asked_again_and_reading_goes_on() -> None:
    async def work() -> None:
        async with world(filled(20, partitions=1)) as w, w.consumer() as consumer:
            told = Told()
            await consumer.subscribe(["demo"], told)
            first = await consumer.poll(5)
            await consumer.commit(first)
            second = await consumer.poll(5)
            w.cluster.places.update({key: held.committed for key, held in w.cluster.held.items()})
            w.cluster.held.clear()
            with pytest.raises(ServerError) as refused:
                await consumer.commit(second)
            assert refused.value.code == 401
            rest = await drain(consumer, 20 - len(first))
            assert rest == numbers(20)[len(first) :]
            again = w.cluster.asked(m.REGISTER_PARTITION)[1]
            assert (again.read_status, again.HasField("curr_offset")) == (0, False)
            assert told.heard == [("assigned", [0])]

    go(work())


def test_a_partition_that_another_client_has_is_lost_and_no_longer_reported() -> None:
    async def work() -> None:
        async with world(filled(0, share_out=False)) as w, w.consumer() as consumer:
            told = Told()
            await consumer.subscribe(["demo"], told)
            await consumer.poll(0.5)
            (name,) = w.cluster.members
            w.cluster.tell(name, CONNECT, ZERO, ONE)
            await consumer.poll(2)
            w.cluster.held["g1", "demo", 0].client = "somebody else"
            await consumer.poll(3)
            assert told.heard == [("assigned", [0, 1]), ("lost", [0])]
            assert w.cluster.members[name].holds == {ONE}

    go(work())


@pytest.mark.parametrize(("code", "times"), [(410, 1), (415, 1), (500, 5)])
def test_a_broker_that_refuses_is_asked_so_often(code: int, times: int) -> None:
    async def work() -> None:
        async with world(filled(0, share_out=False)) as w, w.consumer("demo") as consumer:
            w.cluster.refuse[15] = lambda request: (
                RegisterResponseB2C(success=False, err_code=code, err_msg="no", curr_offset=-1)
                if request.partition_id == 0
                else None
            )
            await consumer.poll(0.5)
            (name,) = w.cluster.members
            w.cluster.tell(name, CONNECT, ZERO, ONE)
            await consumer.poll(10)
            asked = [each for each in w.cluster.asked(m.REGISTER_PARTITION) if each.partition_id == 0]
            assert len(asked) == times
            assert consumer.assignment() == {ONE}
            assert w.cluster.members[name].holds == {ONE}
            assert w.cluster.members[name].event is None

    go(work())


@pytest.mark.parametrize(("code", "times"), [(450, 1), (455, 1), (425, 5), (431, 5)])
def test_a_master_that_refuses_is_asked_so_often(code: int, times: int) -> None:
    async def work() -> None:
        async with world(filled(0)) as w, w.consumer("demo") as consumer:
            w.cluster.refuse[4] = lambda _: RegisterResponseM2C(success=False, err_code=code, err_msg="no")
            with pytest.raises(ServerError) as refused:
                await consumer.poll(30)
            assert refused.value.code == code
            assert len(w.cluster.asked(m.CONSUMER_REGISTER)) == times
            w.cluster.refuse.clear()
            await consumer.poll(3)
            assert len(consumer.assignment()) == 2

    go(work())


@pytest.mark.parametrize(("position", "status"), [("first", 0), ("latest", 1), ("always-latest", 2)])
def test_where_to_begin_is_said_once_a_partition(position: str, status: int) -> None:
    async def work() -> None:
        async with world(filled(0, partitions=1)) as w, w.consumer("demo", consume_position=position) as consumer:
            await consumer.poll(3)
            w.cluster.held.clear()
            await consumer.poll(3)
            asked = w.cluster.asked(m.REGISTER_PARTITION)
            assert [each.read_status for each in asked] == [status, 0]

    go(work())


def test_a_bound_group_begins_at_its_offsets_and_says_so_once() -> None:
    async def work() -> None:
        options: dict[str, OptionValue] = {"bound_consume": True, "session_key": "k", "source_count": 1}
        options["start_offsets"] = "1:demo:0=56"
        async with world(filled(8, share_out=False)) as w, w.consumer("demo", **options) as consumer:
            await consumer.poll(0.5)
            (name,) = w.cluster.members
            (asked,) = w.cluster.asked(m.CONSUMER_REGISTER)
            assert (asked.require_bound, asked.session_key, asked.total_count, asked.select_big) == (True, "k", 1, True)
            assert asked.required_partition == "1:demo:0=56"
            w.cluster.tell(name, CONNECT, ZERO)
            await consumer.poll(2)
            w.cluster.held.clear()
            w.cluster.tell(name, CONNECT, ONE)
            await consumer.poll(3)
            starts = [(each.partition_id, each.curr_offset) for each in w.cluster.asked(m.REGISTER_PARTITION)
                      if each.HasField("curr_offset")]  # fmt: skip
            assert starts == [(0, 56)]

    go(work())


@pytest.mark.parametrize(
    ("offsets", "said"),
    [
        ("1:other:0=56", "name topic 'other', which this consumer does not read"),
        ("1:demo:0=56,9:demo:0=28", "name 9:demo:0, but the topic has no such partition"),
        ("1:demo:7=0", "name 1:demo:7, but the topic has no such partition"),
        ("1:demo:10000=0", "name 1:demo:10000, but"),
    ],
)
def test_start_offsets_of_what_is_not_read_or_not_there_are_refused(offsets: str, said: str) -> None:
    async def work() -> None:
        options: dict[str, OptionValue] = {"bound_consume": True, "session_key": "k", "source_count": 1}
        async with world(filled(8)) as w, w.consumer("demo", **options, start_offsets=offsets) as consumer:
            with pytest.raises(ConfigError, match=said):
                await consumer.poll(30)
            assert not w.cluster.asked(m.CONSUMER_REGISTER)

    go(work())


def test_the_priority_of_queries_is_taken_over_whenever_it_changes_and_when_it_is_taken_back() -> None:
    rules: dict[str, object] = {"group_flow_check_id": 9, "group_flow_control_info": "[]"}

    async def work() -> None:
        cluster = filled(0, partitions=1)
        cluster.rules = {**rules, "qry_priority_id": 303}
        async with world(cluster) as w, w.consumer("demo") as consumer:
            told = []
            for priority in (301, 202, -2):
                await consumer.poll(3)
                told.append(w.cluster.asked(m.PARTITION_HEARTBEAT)[-1])
                cluster.rules = {**rules, "qry_priority_id": priority}  # under the same id as before
            await consumer.poll(3)
            told.append(w.cluster.asked(m.PARTITION_HEARTBEAT)[-1])
            assert [each.qry_priority_id for each in told[:3]] == [303, 301, 202]
            assert not has(told[3], "qry_priority_id")  # which leaves it to the broker
            assert w.cluster.asked(m.CONSUMER_HEARTBEAT)[-1].qry_priority_id == -2

    go(work())


def test_a_signature_goes_with_every_registration_and_the_masters_token_to_brokers() -> None:
    async def work() -> None:
        async with world(filled(0)) as w, w.consumer("demo", user="tube", password="pwd") as consumer:
            await consumer.poll(3)
            (asked,) = w.cluster.asked(m.CONSUMER_REGISTER)
            assert asked.auth_info.auth_info.user_name == "tube"
            assert {each.auth_info.visit_authorized_token for each in w.cluster.asked(m.REGISTER_PARTITION)} == {700}

    go(work())


def test_a_master_that_is_away_stops_nobody() -> None:
    async def work() -> None:
        async with world(filled(10)) as w, w.consumer("demo", heartbeat_after_fail_ms=1_000) as consumer:
            await drain(consumer, 1)
            w.cluster.standby.add("master0")
            assert await drain(consumer, 5)
            await passing(20)
            w.cluster.standby.clear()
            for number in range(10, 14):
                w.cluster.put("demo", number % 2, b"%d" % number)
            assert len(await drain(consumer, 4)) >= 4
            assert len(gets(w.cluster)) > 4

    go(work())


def test_options_that_make_no_sense_in_tubemq_are_refused() -> None:
    async def work() -> None:
        async with world(filled(0)) as w:
            with pytest.raises(ConfigError, match="always have a place to begin"):
                await w.consumer("demo", auto_offset_reset="none").poll(0)
            with pytest.raises(ConfigError, match="no static members"):
                await w.consumer("demo", group_instance_id="i").poll(0)
            newer = AsyncConsumer(f"{SCHEME}://master0:8715/demo", group="g1", group_protocol="consumer")
            with pytest.raises(ConfigError, match="group_protocol is 'consumer', but TubeMQ"):
                await newer.poll(0)

    go(work())
