"""Requests of thousands of entries: the loop is left to others, memory is given back, and the right ones work."""

import asyncio
import logging
import sys
from types import FrameType

import pytest

from penstock.errors import ProtocolViolation
from penstock.net.flow_control import Budget
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.groups.classic_group import GROUP_BYTES
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.framing import request
from penstock.protocols.kafka.wire.groups import (
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)
from penstock.protocols.kafka.wire.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from penstock.protocols.kafka.wire.topics import (
    DeleteRecordsRequest,
    DeleteRecordsRequestPartition,
    DeleteRecordsRequestTopic,
)
from tests.hostile_requests import hostile_names, hostile_request
from tests.unit.kafka_front.kit import Kit, run

_ENTRIES, _WIDE = 3_000, 300
_CALLS = 35_000
"""Of Python's functions in one turn of the loop: about ten milliseconds. To encode 3,000 entries alone takes more."""
_CREATES = ("CreateTopics v0 topics", "Metadata v0 topics")
"""They make topics, which is tested where topics are."""


def names() -> list[object]:
    """The newest version with texts that differ in any run; the others in a long one."""
    rows: list[object] = []
    newest = {name.split()[0]: name.split()[1] for name in hostile_names()}
    for name in hostile_names():
        api, version, _, texts = name.split()
        usual = version == newest[api] and texts == "different"
        if not name.startswith(_CREATES):
            rows.append(pytest.param(name, marks=() if usual else pytest.mark.long))
    return rows


async def turn() -> None:
    """One turn of the loop."""
    await asyncio.sleep(0)


class CallCounter:
    """Counts calls of Python functions in this thread."""

    def __init__(self) -> None:
        self.count = self.worst = 0

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        self.count += event == "call"

    async def turn(self) -> None:
        """One turn of the loop."""
        self.count = 0
        before = sys.getprofile()
        sys.setprofile(self)
        try:
            await asyncio.sleep(0)
        finally:
            sys.setprofile(before)
        self.worst = max(self.worst, self.count)


@pytest.mark.parametrize("name", names())
def test_a_request_of_many_entries_leaves_the_loop_to_others(name: str) -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        wide = name.startswith(("CreateTopics", "DescribeConfigs"))  # each is answered with all options
        asked_for = hostile_request(name, _WIDE if wide else _ENTRIES, "t")
        data = b"".join(request(asked_for.message, asked_for.version, "me")(7))
        counter = CallCounter()
        asked = asyncio.ensure_future(kit.client().send(data))
        while not asked.done():
            await counter.turn()
        assert counter.worst < _CALLS
        assert asked.exception() is None or isinstance(asked.exception(), ProtocolViolation)

    memory = Budget(256 << 20)
    run(test, memory=memory)
    assert memory.used <= GROUP_BYTES  # a commit makes a group


def commit(partitions: int) -> OffsetCommitRequest:
    parts = [OffsetCommitRequestPartition(partition_index=each, committed_offset=each) for each in range(partitions)]
    topics = [OffsetCommitRequestTopic(name="t", partitions=parts)]
    return OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=-1, member_id="", topics=topics)


def test_ten_thousand_offsets_are_committed_and_found_again() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 10_000)
        answer = await kit.ask(commit(10_000), 9)
        assert {part.error_code for part in answer.topics[0].partitions} == {0}
        topic = OffsetFetchRequestGroupTopic(name="t", partition_indexes=list(range(10_000)))
        found = await kit.ask(OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id="g", topics=[topic])]), 9)
        rows = found.groups[0].topics[0].partitions
        assert [row.committed_offset for row in rows] == list(range(10_000))

    run(test)


def test_all_partitions_of_a_large_topic_are_described() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 10_000)
        answer = await kit.ask(MetadataRequest(topics=None), 12)
        assert [part.partition_index for part in answer.topics[0].partitions] == list(range(10_000))

    run(test)


def test_a_request_of_too_many_entries_is_hung_up_on_and_the_log_says_why(caplog: pytest.LogCaptureFixture) -> None:
    async def test(kit: Kit) -> None:
        with caplog.at_level(logging.WARNING), pytest.raises(ProtocolViolation, match="more than 3000 elements"):
            await kit.send(b"".join(request(commit(3_001), 9, "me")(7)))
        assert "more than 3000 entries, the client is hung up on" in caplog.text
        assert (await kit.client().ask(MetadataRequest(topics=()), 12)).controller_id == 1

    memory = Budget(64 << 20)
    run(test, KafkaFrontOptions(max_request_entries=3_000), memory=memory)
    assert memory.used == 0


def test_an_answer_of_too_many_entries_is_not_made() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 10_000)
        with pytest.raises(Exception, match="more than 5000 entries"):
            await kit.send(b"".join(request(MetadataRequest(topics=None), 12, "me")(7)))

    memory = Budget(64 << 20)
    run(test, KafkaFrontOptions(max_answer_entries=5_000), memory=memory)
    assert memory.used == 0


def test_large_requests_take_turns_within_their_part_of_the_memory() -> None:
    async def test(kit: Kit) -> None:
        most = 0

        async def ask() -> None:
            await kit.client().ask(commit(3_000), 9)

        asked = asyncio.gather(*(ask() for _ in range(5)))
        while not asked.done():
            await turn()
            most = max(most, memory.used)
        await asked
        # The requests' part, and what the answers of those in it take.
        assert 0 < most <= 2 * memory.limit // 4

    memory = Budget(64 << 20)
    run(test, memory=memory)
    assert memory.used == GROUP_BYTES  # the commits have made a group


def test_what_a_large_request_takes_is_given_back_when_its_client_goes() -> None:
    async def test(kit: Kit) -> None:
        asked = asyncio.ensure_future(kit.send(b"".join(request(commit(20_000), 9, "me")(7))))
        while not memory.used:
            await turn()
        asked.cancel()
        await asyncio.gather(asked, return_exceptions=True)
        assert (await kit.client().ask(commit(3_000), 9)).topics

    memory = Budget(64 << 20)
    run(test, memory=memory)
    assert memory.used == GROUP_BYTES  # the commits have made a group


def test_a_fetch_of_thousands_of_partitions_does_not_keep_others_waiting_for_long() -> None:
    """It holds memory that others like it wait for."""

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 3_000)
        parts = [FetchRequestPartition(partition=each, partition_max_bytes=100) for each in range(3_000)]
        topics = [FetchRequestTopic(topic="t", partitions=parts)]
        asked = FetchRequest(max_wait_ms=3_600_000, min_bytes=1, max_bytes=1 << 20, session_epoch=-1, topics=topics)
        async with asyncio.timeout(20):
            answer = await kit.ask(asked, 12)
        assert len(answer.responses[0].partitions) == 3_000

    run(test)


def test_a_topic_that_is_named_many_times_is_described_once() -> None:
    """As by a real broker of 4.3.1."""

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        asked = [MetadataRequestTopic(name=name) for name in ("t", "nope") * 1_000]
        answer = await kit.ask(MetadataRequest(topics=asked, allow_auto_topic_creation=False), 9)
        assert [(each.name, each.error_code) for each in answer.topics] == [("t", 0), ("nope", 3)]

    run(test)


def test_records_of_a_partition_are_deleted_once_a_request() -> None:
    """As by a real broker of 4.3.1, up to the offset that is said last."""

    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        parts = [DeleteRecordsRequestPartition(partition_index=0, offset=each) for each in (7, 8, 0)]
        topics = [DeleteRecordsRequestTopic(name="t", partitions=parts)]
        answer = await kit.ask(DeleteRecordsRequest(topics=topics, timeout_ms=1_000), 2)
        assert [(each.partition_index, each.error_code) for each in answer.topics[0].partitions] == [(0, 0)]

    run(test)


def test_a_name_of_more_than_32767_bytes_is_hung_up_on() -> None:
    """A compact string can say more, and a real broker of 4.3.1 does not read it either."""

    async def test(kit: Kit) -> None:
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="x" * 32_768)])
        with pytest.raises(ProtocolViolation, match="32767 bytes at most"):
            await kit.send(b"".join(request(asked, 9, "me")(7)))

    run(test)


def join(group: str, metadata: bytes, member_id: str = "", protocols: int = 1) -> JoinGroupRequest:
    offered = [JoinGroupRequestProtocol(name=f"range{each}", metadata=metadata) for each in range(protocols)]
    return JoinGroupRequest(
        group_id=group,
        session_timeout_ms=10_000,
        rebalance_timeout_ms=10_000,
        member_id=member_id,
        protocol_type="consumer",
        protocols=offered,
    )


def test_members_hold_a_part_of_the_memory_together() -> None:
    """16 MiB of 64; half of that from one address."""

    async def test(kit: Kit) -> None:
        codes = [(await kit.client().ask(join(f"g{each}", bytes(1 << 20)), 2)).error_code for each in range(12)]
        assert codes.count(ErrorCode.NONE) == 7
        assert set(codes[7:]) == {ErrorCode.GROUP_MAX_SIZE_REACHED}
        held = kit.front._shared.groups.coordinator.held
        assert 7 << 20 < held.size == memory.used - 7 * GROUP_BYTES < 8 << 20
        assert (await kit.client().ask(join("small", b"few"), 2)).error_code == ErrorCode.NONE

    memory = Budget(64 << 20)
    run(test, memory=memory)


def test_what_a_member_held_is_given_back_when_it_leaves_or_its_session_ends() -> None:
    async def test(kit: Kit) -> None:
        coordinator = kit.front._shared.groups.coordinator
        joined = await kit.ask(join("g", bytes(1 << 20)), 2)
        again = await kit.ask(join("g", bytes(2 << 20), joined.member_id), 2)
        assert 2 << 20 < memory.used < 3 << 20
        assigned = [SyncGroupRequestAssignment(member_id=joined.member_id, assignment=bytes(1 << 20))]
        synced = SyncGroupRequest(
            group_id="g", generation_id=again.generation_id, member_id=joined.member_id, assignments=assigned
        )
        assert (await kit.ask(synced, 2)).error_code == ErrorCode.NONE
        assert 3 << 20 < memory.used < 4 << 20
        now = kit.front._shared.groups.now()
        coordinator.expire(now._replace(monotonic=now.monotonic + 3_600))
        assert coordinator.held.size == 0
        assert memory.used == GROUP_BYTES  # until its offsets expire
        waits = await kit.ask(join("h", b""), 5)
        assert waits.error_code == ErrorCode.MEMBER_ID_REQUIRED
        assert coordinator.held.size > 0
        coordinator.expire(now._replace(monotonic=now.monotonic + 3_600))
        assert (coordinator.held.size, memory.used) == (0, GROUP_BYTES)

    memory = Budget(64 << 20)
    run(test, memory=memory)


def test_a_member_may_offer_two_thousand_protocols_and_no_more() -> None:
    async def test(kit: Kit) -> None:
        assert (await kit.ask(join("g", b"", protocols=1_999), 2)).error_code == ErrorCode.NONE
        too_many = await kit.client().ask(join("h", b"", protocols=2_001), 2)
        assert too_many.error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL

    run(test)


def test_assignments_are_taken_from_the_leader_only() -> None:
    async def test(kit: Kit) -> None:
        assigned = [SyncGroupRequestAssignment(member_id=f"m{each}", assignment=b"") for each in range(1_001)]
        asked = SyncGroupRequest(group_id="g", generation_id=1, member_id="stranger", assignments=assigned)
        assert (await kit.ask(asked, 2)).error_code == ErrorCode.INVALID_REQUEST

    run(test)
