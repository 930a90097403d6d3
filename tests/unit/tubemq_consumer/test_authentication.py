"""Masters and brokers that want a signature with every request that has room for one; clients with a password sign all.

As real ones do with startProduceAuthenticate and startConsumeAuthenticate: each request without one is refused (415),
and none of their answers ever asks for one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from penstock.config import OptionValue
from penstock.interfaces.client import FoundOffset
from penstock.model import Codec, LogRange, Offset, OffsetSpec, Partition
from penstock.protocols.tubemq.client.sender import TubeSender
from penstock.protocols.tubemq.wire import rpc as m
from tests.unit.client.virtual_time import passing
from tests.unit.tubemq_client.cluster import Cluster, go, stage
from tests.unit.tubemq_client.test_sending import rows
from tests.unit.tubemq_consumer.groups import Told, filled, world
from tests.unit.tubemq_consumer.test_server_balanced import drain, numbers

ZERO = Partition("demo", 0, "1")
SIGNS: Mapping[str, OptionValue] = {"user": "tube", "password": "pwd"}
OF_MASTERS = {1, 2, 3, 4, 5, 6, 20, 21, 22}
OF_BROKERS = {13, 15, 16}


def fields_of(message: Any) -> set[str]:
    return set(message.DESCRIPTOR.fields_by_name)


def is_signed(number: int, request: Any) -> bool:
    if number in OF_MASTERS:
        return bool(request.auth_info.auth_info.signature)
    return bool(request.auth_info.auth_authorized_token)


def guard(cluster: Cluster) -> None:
    """Refuse what is not signed, with 415, in each method's own answer."""
    for number in OF_MASTERS | OF_BROKERS:
        answer = m.METHODS[number].answer

        def refusal(request: Any, number: int = number, answer: Any = answer) -> object:
            if is_signed(number, request):
                return None
            required = {"success": False, "err_code": 415, "err_msg": "no signature", "broker_check_sum": 0}
            return answer(**{name: value for name, value in required.items() if name in fields_of(answer)})

        cluster.refuse[number] = refusal


def unsigned(cluster: Cluster) -> set[str]:
    """Methods that were called without a signature, of those that have room for it."""
    asked = [(number, request) for number, request in cluster.seen if number in OF_MASTERS | OF_BROKERS]
    return {m.METHODS[number].name for number, request in asked if not is_signed(number, request)}


def test_these_are_all_the_methods_that_have_room_for_a_signature() -> None:
    of_brokers_themselves = {7, 8, 9}
    found = {number for number, method in m.METHODS.items() if "auth_info" in fields_of(method.request)}
    assert found - of_brokers_themselves == OF_MASTERS | OF_BROKERS


@pytest.mark.parametrize("mode", ["server", "shares", "chosen"])
def test_a_member_keeps_its_partitions_over_heartbeats_to_brokers_that_want_signatures(mode: str) -> None:
    async def work() -> None:
        cluster = filled(20)
        guard(cluster)
        async with world(cluster) as w, w.consumer(**SIGNS, client_balance=mode == "shares") as consumer:
            told = Told()
            if mode == "chosen":
                await consumer.assign(await consumer.partitions_for("demo"))
            else:
                await consumer.subscribe(["demo"], told)
            assert sorted(await drain(consumer, 20)) == sorted(numbers(20))
            for _ in range(10):
                assert not await consumer.poll(3)
            assert len(cluster.asked(m.PARTITION_HEARTBEAT)) > 5
            assert [what for what, _ in told.heard if what != "assigned"] == []
            assert len([each for each in cluster.asked(m.REGISTER_PARTITION) if each.group_name == "g1"]) == 2
        assert unsigned(cluster) == set()
        assert cluster.asked(m.CONSUMER_CLOSE)

    go(work())


def test_producers_readers_and_what_asks_for_a_group_sign_as_well() -> None:
    async def work() -> None:
        cluster = Cluster({"demo": (1, 1)})
        guard(cluster)
        async with stage(cluster, publishing=True, user="tube", password="pwd") as s:
            sender = TubeSender(s.client.shared)
            await sender.open()
            await s.client.topics(["demo"])
            node = s.client.leader(ZERO)
            assert node is not None
            packed = sender.pack(ZERO, rows(b"a"), Codec.NONE)
            (sent,) = await sender.send(node, [packed], acks=-1, timeout_s=5)
            assert sent.error is None
            await sender.beat()
        async with stage(cluster, user="tube", password="pwd") as s:
            assert await s.client.offsets({ZERO: OffsetSpec(Offset.EARLIEST)}) == {ZERO: FoundOffset(0)}
            reads = s.client.ranges(LogRange("demo", 0, 0, 28, node="1"))
            await reads.ask(0)
            assert (await reads.take()).next_offset == 28
            await reads.finish()
            assert (await s.client.committed("g1", [ZERO]))[ZERO].offset == 0
            await passing(1)
        assert unsigned(cluster) == set()
        assert {m.PRODUCER_CLOSE.number, m.BALANCED_REGISTER.number} <= {number for number, _ in cluster.seen}

    go(work())
