"""What Kafka's clients make the node keep: no address uses up what others need, and what goes is given back."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import pytest

from penstock.net.flow_control import Budget
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.coordinator_admin import DeleteGroupsRequest
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.groups import (
    ConsumerGroupHeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
)
from penstock.protocols.kafka.wire.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from penstock.protocols.kafka.wire.topics import (
    CreatePartitionsRequest,
    CreatePartitionsRequestTopic,
    CreateTopicsRequest,
    CreateTopicsRequestTopic,
    DeleteTopicsRequest,
)
from penstock.snode.committed_offsets import kept_offsets
from penstock.store import open_store
from tests.unit.kafka_front.group_kit import commit
from tests.unit.kafka_front.kit import Client, Kit, run, serving
from tests.unit.kafka_front.transaction_kit import Writer

_ELSEWHERE = "10.0.0.2"
_FEW = 201
"""A total of which one address may have 200."""


async def waiting(kit: Kit, client: Client, partitions: int = 1, wait_ms: int = 60_000, version: int = 11) -> Any:
    parts = [
        FetchRequestPartition(partition=each, fetch_offset=0, partition_max_bytes=1_000) for each in range(partitions)
    ]
    asked = FetchRequest(
        max_wait_ms=wait_ms,
        min_bytes=1,
        max_bytes=1_000,
        session_epoch=-1,
        topics=[FetchRequestTopic(topic="t", partitions=parts)],
    )
    return await client.ask(asked, version)


async def until(so: Callable[[], bool]) -> None:
    for _ in range(10_000):
        if so():
            return
        await asyncio.sleep(0)
    raise AssertionError("this takes too long")


async def until_held(kit: Kit, count: int) -> None:
    await until(lambda: kit.front._shared.limits.held >= count)


def test_an_address_has_a_share_of_held_fetches_and_the_next_is_answered_at_once_with_a_throttle_time(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 2)
        clients = [kit.client() for _ in range(200)]
        held = [asyncio.ensure_future(waiting(kit, each, 1 + number % 2)) for number, each in enumerate(clients)]
        await until_held(kit, 200)
        before = memory.used
        assert before >= 200 * 2_000
        for partitions in (1, 2):
            answer = await asyncio.wait_for(waiting(kit, kit.client(), partitions), 5)
            assert answer.error_code == ErrorCode.NONE
            assert answer.throttle_time_ms == 1_000
        assert (
            "200 held requests from 127.0.0.1, its share of 201 (max_held, address_share_percent); more are not taken"
            in caplog.text
        )
        other = asyncio.ensure_future(waiting(kit, kit.client(_ELSEWHERE)))
        await until_held(kit, 201)
        clients[0].session.lost()
        await held[0]
        again = asyncio.ensure_future(waiting(kit, kit.client(_ELSEWHERE)))
        await until_held(kit, 201)
        for each in kit.front._sessions:
            each.connection.release()
        await asyncio.gather(*held, other, again)
        assert (kit.front._shared.limits.held, memory.used) == (0, 0)

    caplog.set_level(logging.WARNING)
    memory = Budget(64 << 20)
    run(test, KafkaFrontOptions(max_held=_FEW), memory=memory)


def test_a_client_that_does_not_obey_the_throttle_time_is_served_after_it_or_goes() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        held = asyncio.ensure_future(waiting(kit, kit.client()))
        await until_held(kit, 1)
        client = kit.client()
        assert 1 <= (await waiting(kit, client, wait_ms=20)).throttle_time_ms <= 20
        assert (await waiting(kit, client, wait_ms=0)).throttle_time_ms == 0
        assert (await waiting(kit, client)).throttle_time_ms == 1_000
        next_one = asyncio.ensure_future(named(client, "t"))
        await until(lambda: client.session.connection.held == 1)
        assert not next_one.done()
        client.session.lost()
        assert await asyncio.wait_for(next_one, 0.5) == ErrorCode.NONE
        await kit.front.stop()
        await held

    run(test, KafkaFrontOptions(max_held=1))


def test_a_held_fetch_of_many_partitions_takes_its_bytes() -> None:
    """An eighth of the memory for all, half of that for an address: two fetches of 1,000 partitions, of 16 MiB."""

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1_900)
        clients = [kit.client(), kit.client()]
        held = [asyncio.ensure_future(waiting(kit, each, 1_000)) for each in clients]
        await until_held(kit, 2)
        answer = await asyncio.wait_for(waiting(kit, kit.client(), 1_000), 5)
        assert answer.throttle_time_ms > 0
        other = asyncio.ensure_future(waiting(kit, kit.client(_ELSEWHERE), 1_000))
        await until_held(kit, 3)
        await kit.front.stop()
        await asyncio.gather(*held, other)

    run(test, memory=Budget(16 << 20))


def join(group: str, **given: Any) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        protocol_type="consumer",
        protocols=[JoinGroupRequestProtocol(name="range", metadata=b"")],
        **given,
    )


def test_a_group_forms_though_no_more_fetches_are_held() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        first = await kit.ask(join("g"), 2)
        assert first.error_code == ErrorCode.NONE
        held = asyncio.ensure_future(waiting(kit, kit.client()))
        await until_held(kit, 1)
        second = asyncio.ensure_future(kit.client().ask(join("g"), 2))
        third = await asyncio.wait_for(kit.ask(join("g", member_id=first.member_id), 2), 5)
        assert third.error_code == (await asyncio.wait_for(second, 5)).error_code == ErrorCode.NONE
        await kit.front.stop()
        await held

    run(test, KafkaFrontOptions(max_held=1))


def test_an_address_has_a_share_of_transactional_ids_and_their_clients_back_off(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(kit: Kit) -> None:
        writers = [Writer(kit, f"tx-{number}") for number in range(200)]
        assert {await each.init() for each in writers} == {ErrorCode.NONE}
        assert await Writer(kit, "one-more").init() == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (
            "200 transactional ids from 127.0.0.1, its share of 201 (max_transactional_ids, address_share_percent);"
            " more are not taken; raise the option in brackets" in caplog.text
        )
        assert await writers[0].init() == ErrorCode.NONE  # one that is known goes on
        assert await Writer(kit.client(_ELSEWHERE), "other").init() == ErrorCode.NONE
        used = memory.used
        assert used > 0
        await kit.front._shared.transactions.forget_unused(0)
        assert memory.used == 0
        assert await Writer(kit, "one-more").init() == ErrorCode.NONE

    memory = Budget(64 << 20)
    run(test, KafkaFrontOptions(max_transactional_ids=_FEW), memory=memory)


def test_partitions_of_open_transactions_take_memory_until_they_end() -> None:
    """A sixteenth for all, at least 64 KiB of that for an address."""

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1_000)
        writer = Writer(kit)
        await writer.init()
        assert set(await writer.add(*[("t", each) for each in range(300)])) == {ErrorCode.NONE}
        used = memory.used
        assert used > 300 * 200
        refused = set(await writer.add(*[("t", each) for each in range(1_000)]))
        assert refused == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert memory.used == used
        assert await writer.end(commit=False) == ErrorCode.NONE
        assert 0 < memory.used < 1_000

    memory = Budget(2 << 20)
    run(test, memory=memory)


def test_an_address_has_a_share_of_groups_until_they_are_gone(caplog: pytest.LogCaptureFixture) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        for number in range(199):
            assert await commit(kit, 1, group_id=f"g{number}") == ErrorCode.NONE
        assert (await kit.ask(join("joined"), 2)).error_code == ErrorCode.NONE
        assert await commit(kit, 1, group_id="one-more") == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (await kit.ask(join("one-more"), 2)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        beat = ConsumerGroupHeartbeatRequest(
            group_id="newer",
            member_id="m",
            member_epoch=0,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=["t"],
            topic_partitions=[],
        )
        refused = await kit.ask(beat, 0)
        assert refused.error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        text = "200 groups from 127.0.0.1, its share of 201 (max_groups, address_share_percent); more are not taken"
        assert text in refused.error_message
        assert caplog.text.count(text) >= 2
        assert "group.max.size" not in caplog.text
        assert await commit(kit, 2, group_id="g0") == ErrorCode.NONE
        assert await commit(kit.client(_ELSEWHERE), 1, group_id="other") == ErrorCode.NONE
        deleted = await kit.ask(DeleteGroupsRequest(groups_names=["g0", "g1"]), 2)
        assert {each.error_code for each in deleted.results} == {ErrorCode.NONE}
        assert (await kit.ask(beat, 0)).error_code == ErrorCode.NONE
        await kit.front._shared.groups.expire_offsets(0)
        assert len(kit.front._shared.limits.groups) == 2  # those with members

    run(test, KafkaFrontOptions(max_groups=_FEW))


def test_an_address_has_a_share_of_committed_offsets_until_they_are_gone(caplog: pytest.LogCaptureFixture) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 202)
        kept = kit.offsets._kept = kept_offsets(_FEW, memory)
        for number in range(200):
            assert await commit(kit, 1, partition=number) == ErrorCode.NONE
        assert await commit(kit, 1, partition=200) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert (
            "200 committed offsets from 127.0.0.1, its share of 201 (max_committed_offsets, address_share_percent)"
            in caplog.text
        )
        assert await commit(kit, 2, partition=0) == ErrorCode.NONE
        assert await commit(kit.client(_ELSEWHERE), 1, partition=201) == ErrorCode.NONE
        assert await commit(kit.client("10.0.0.3"), 1, partition=200) == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert len(await kit.offsets.committed("g")) == len(kept) == 201
        await kit.offsets.forget("g", lambda partition, _: partition.id < 2)
        assert len(kept) == 199
        assert await commit(kit, 1, partition=200) == ErrorCode.NONE
        await kit.ask(DeleteTopicsRequest(topic_names=["t"]), 5)
        assert (len(kept), kept.size) == (0, 0)

    memory = Budget(64 << 20)
    run(test, memory=memory)


def test_offsets_of_a_refused_commit_and_of_an_aborted_transaction_count_no_more() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 300)
        kept = kit.offsets._kept = kept_offsets(_FEW)
        parts = [OffsetCommitRequestPartition(partition_index=each, committed_offset=1) for each in range(201)]
        many = OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="t", partitions=parts)])
        answer = await kit.ask(many, 8)
        codes = {each.error_code for each in answer.topics[0].partitions}
        assert codes == {ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
        assert len(kept) == 0
        writer = Writer(kit)
        await writer.init()
        for offset in (1, 2, 3):
            assert await writer.commit_offsets("g", "t", offset) == ErrorCode.NONE
        assert len(kept) == 1
        assert await writer.end(commit=False) == ErrorCode.NONE
        assert len(kept) == 0
        assert await kit.offsets.committed("g") == {}

    run(test)


def creating(name: str, partitions: int) -> CreateTopicsRequest:
    topic = CreateTopicsRequestTopic(name=name, num_partitions=partitions, replication_factor=1)
    return CreateTopicsRequest(topics=[topic], timeout_ms=1_000)


async def create(client: Client, name: str, partitions: int) -> tuple[int, str]:
    (answer,) = (await client.ask(creating(name, partitions), 7)).topics
    return answer.error_code, answer.error_message or ""


async def named(client: Client, name: str) -> int:
    (answer,) = (await client.ask(MetadataRequest(topics=[MetadataRequestTopic(name=name)]), 9)).topics
    code: int = answer.error_code
    return code


def test_an_address_has_a_share_of_partitions_however_it_makes_them(caplog: pytest.LogCaptureFixture) -> None:
    async def test(kit: Kit) -> None:
        room = kit.front._shared.limits.room
        assert await create(kit, "a", 150) == (ErrorCode.NONE, "")
        assert await named(kit, "b") == ErrorCode.NONE
        share = "its share of 201 (max_topic_partitions, address_share_percent); "
        why = f"151 partitions of topics from 127.0.0.1, {share}"
        assert await create(kit, "c", 50) == (ErrorCode.POLICY_VIOLATION, why + "50 more are not taken")
        more = CreatePartitionsRequestTopic(name="b", count=51, assignments=None)
        grown = CreatePartitionsRequest(topics=[more], timeout_ms=1_000)
        (refused,) = (await kit.ask(grown, 3)).results
        assert refused.error_code == ErrorCode.POLICY_VIOLATION
        assert await create(kit, "c", 49) == (ErrorCode.NONE, "")
        assert await named(kit, "d") == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert "200 partitions of topics from 127.0.0.1, its share of 201" in caplog.text
        assert kit.store.topic("d") is None
        assert await create(kit.client(_ELSEWHERE), "e", 1) == (ErrorCode.NONE, "")
        assert (await create(kit.client(_ELSEWHERE), "f", 1))[0] == ErrorCode.POLICY_VIOLATION
        await kit.ask(DeleteTopicsRequest(topic_names=["a"]), 5)
        assert len(room) == 51
        assert (await kit.ask(grown, 3)).results[0].error_code == ErrorCode.NONE
        assert len(room) == 101
        kit.store.delete_topic("b")  # by another front
        kit.store.create_topic("g", 100)
        await room.look()
        assert len(room) == 150

    run(test, KafkaFrontOptions(max_topic_partitions=_FEW))


def test_thousands_of_topics_that_are_refused_do_not_count_all_topics_each_time() -> None:
    async def test(kit: Kit) -> None:
        await create(kit, "a", 200)
        counted = 0
        topics = kit.enode.topics

        async def count() -> Any:
            nonlocal counted
            counted += 1
            return await topics()

        kit.enode.topics = count  # type: ignore[method-assign]
        asked = [
            CreateTopicsRequestTopic(name=f"n{each}", num_partitions=1, replication_factor=1) for each in range(300)
        ]
        answer = await kit.ask(CreateTopicsRequest(topics=asked, timeout_ms=1_000), 7)
        assert {each.error_code for each in answer.topics} == {ErrorCode.POLICY_VIOLATION}
        assert counted <= 2

    run(test, KafkaFrontOptions(max_topic_partitions=_FEW))


def test_a_creation_that_fails_takes_no_room() -> None:
    async def test(kit: Kit) -> None:
        room = kit.front._shared.limits.room
        await create(kit, "a.b", 10)
        assert (await create(kit, "a_b", 10))[0] == ErrorCode.INVALID_TOPIC_EXCEPTION
        assert (await create(kit, "a.b", 10))[0] == ErrorCode.TOPIC_ALREADY_EXISTS
        assert len(room) == 10

    run(test)


def test_what_the_log_brings_counts_without_an_owner_and_takes_no_memory() -> None:
    """Else a node with many topics or groups would have no room for its clients."""

    async def first(kit: Kit) -> None:
        assert await create(kit, "t", 200) == (ErrorCode.NONE, "")
        assert await create(kit.client(_ELSEWHERE), "u", 1) == (ErrorCode.NONE, "")
        assert await commit(kit, 1, group_id="g") == ErrorCode.NONE
        assert await Writer(kit).init() == ErrorCode.NONE
        assert memory.used > 0

    async def again(kit: Kit) -> None:
        limits = kit.front._shared.limits
        assert (len(limits.room), len(limits.groups), len(limits.ids), memory.used) == (201, 1, 1, 0)
        code, why = await create(kit.client(_ELSEWHERE), "one-more", 1)
        assert code == ErrorCode.POLICY_VIOLATION
        assert why == "201 partitions of topics, more are not taken (max_topic_partitions)"
        assert await Writer(kit).init() == ErrorCode.NONE

    async def main() -> None:
        nonlocal memory
        with open_store("memory:") as store:
            for test in (first, again):
                memory = Budget(64 << 20)
                async with serving(KafkaFrontOptions(max_topic_partitions=_FEW), store=store, memory=memory) as kit:
                    await test(kit)

    memory = Budget(64 << 20)
    asyncio.run(main())


def test_the_log_line_of_a_member_without_room_names_the_memory_and_not_the_size_of_groups(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def test(kit: Kit) -> None:
        request = join("g")
        large = JoinGroupRequest(
            group_id="g",
            session_timeout_ms=request.session_timeout_ms,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol(name="range", metadata=bytes(200_000))],
        )
        assert (await kit.ask(large, 2)).error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
        assert "members of groups from 127.0.0.1 take 0 bytes, and 204005 more are above its share" in caplog.text
        assert "(memory_bytes, address_share_percent); raise the option in brackets, or use fewer" in caplog.text
        assert "group.max.size" not in caplog.text

    run(test, memory=Budget(1 << 20))


def test_no_topics_are_made_for_a_client_that_has_gone() -> None:
    async def test(kit: Kit) -> None:
        client = kit.client()
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=f"n{number}") for number in range(1_000)], allow_auto_topic_creation=True
        )
        asked = asyncio.ensure_future(client.ask(request, 4))
        await until(lambda: len(kit.store.topics()) >= 2)
        client.session.lost()
        await asked
        assert 2 <= len(kit.store.topics()) < 20

    run(test)
