"""An enode that is far away lets others go on at every call: what must not come in between does not."""

import asyncio
from typing import Any

import pytest

from penstock.model import Committed, Partition
from penstock.protocols.kafka.errors import ErrorCode
from penstock.protocols.kafka.wire.configs import (
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from penstock.protocols.kafka.wire.coordinator_admin import DeleteGroupsRequest
from penstock.protocols.kafka.wire.groups import LeaveGroupRequest, LeaveGroupRequestMember
from penstock.protocols.kafka.wire.metadata import MetadataRequest, MetadataRequestTopic
from penstock.protocols.kafka.wire.topics import CreateTopicsRequest, CreateTopicsRequestTopic
from tests.unit.kafka_front.group_kit import commit, member, until
from tests.unit.kafka_front.kit import Client, Kit, batch, run
from tests.unit.kafka_front.test_configs import options_of
from tests.unit.kafka_front.test_fetch import asking, fetch
from tests.unit.kafka_front.transaction_kit import FIRST, SECOND, Writer, seen
from tests.unit.kafka_front.transaction_kit import fetch as fetch_one

pytestmark = pytest.mark.near  # it is about calls that the tests hold themselves


class Door:
    """Calls of one name stop before it until it is opened."""

    def __init__(self, kit: Kit, call: str) -> None:
        self.reached, self.opened = asyncio.Event(), asyncio.Event()
        self.call = call
        kit.enode.before = self.pass_through

    async def pass_through(self, call: str) -> None:
        if call == self.call:
            self.reached.set()
            await self.opened.wait()


async def alter(client: Client, name: str, value: str) -> int:
    change = IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
    resource = IncrementalAlterConfigsRequestResource(resource_type=2, resource_name="t", configs=[change])
    answer = await client.ask(IncrementalAlterConfigsRequest(resources=[resource]), 1)
    code: int = answer.responses[0].error_code
    return code


async def others_go_on() -> None:
    for _ in range(50):
        await asyncio.sleep(0)


def test_no_marker_stands_before_a_batch_that_was_let_into_its_transaction() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        writer = Writer(kit.client(), version=FIRST)
        assert (await writer.init(), await writer.write("t", b"a")) == (0, 0)
        door = Door(kit, "append_all")
        producing = asyncio.ensure_future(writer.produce("t", b"b"))
        await door.reached.wait()
        kit.enode.before = kit.enode.after  # only the batch waits
        other = Writer(kit.client(), version=FIRST)
        other.producer_id, other.epoch = writer.producer_id, writer.epoch
        ending = asyncio.ensure_future(other.end(commit=False))
        await others_go_on()
        door.opened.set()
        assert await producing == 0
        assert await ending == 0
        done = await fetch_one(kit, "t")
        assert (done.high_watermark, done.last_stable_offset, seen(done)) == (3, 3, [])

    run(test)


def test_what_arrives_between_reading_and_waiting_is_not_waited_for() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)

        async def arrives(call: str) -> None:
            if call == "fetch":
                kit.enode.after = kit.enode.before
                await kit.produce("t", batch())

        kit.enode.after = arrives
        async with asyncio.timeout(30):
            (part,) = await fetch(kit, asking(0, max_wait_ms=3_600_000))
        assert part.records

    run(test)


def test_a_member_that_is_put_out_while_topics_are_looked_up_commits_nothing() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        joined = await member(kit)
        identity: dict[str, Any] = {
            "generation_id_or_member_epoch": joined.generation_id,
            "member_id": joined.member_id,
        }
        door = Door(kit, "topic")
        committing = asyncio.ensure_future(commit(kit, 5, **identity))
        await door.reached.wait()
        leaving = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id=joined.member_id)])
        assert (await kit.client().ask(leaving, 4)).error_code == 0
        door.opened.set()
        assert await committing == ErrorCode.UNKNOWN_MEMBER_ID
        assert not await kit.offsets.committed("g")

    run(test)


def test_options_that_are_changed_at_once_are_all_changed() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        door = Door(kit, "set_config")
        first = asyncio.ensure_future(alter(kit.client(), "retention.ms", "5"))
        await door.reached.wait()
        second = asyncio.ensure_future(alter(kit.client(), "segment.bytes", "4096"))
        await others_go_on()
        door.opened.set()
        assert (await first, await second) == (0, 0)
        found = await options_of(kit)
        assert (found["retention.ms"].value, found["segment.bytes"].value) == ("5", "4096")

    run(test)


def test_a_topic_that_two_make_at_once_is_there_for_both() -> None:
    async def test(kit: Kit) -> None:
        door = Door(kit, "create_topic")
        request = CreateTopicsRequest(
            topics=[CreateTopicsRequestTopic(name="t", num_partitions=1, replication_factor=1)]
        )
        asked = MetadataRequest(topics=[MetadataRequestTopic(name="t")], allow_auto_topic_creation=True)
        made = [asyncio.ensure_future(kit.client().ask(request, 5)) for _ in range(2)]
        found = asyncio.ensure_future(kit.client().ask(asked, 9))
        await others_go_on()
        door.opened.set()
        codes = [(await each).topics[0].error_code for each in made]
        assert codes == [ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS]
        assert (await found).topics[0].error_code == ErrorCode.NONE

    run(test)


async def closed(kit: Kit) -> Door:
    """Where group "g" is kept something is in doubt, and the log does not say what: its turn does not come."""
    before, kit.enode.after = kit.enode.after, never
    lost = asyncio.ensure_future(kit.offsets.commit("g", {Partition("other", 0): Committed(1)}))
    await others_go_on()
    lost.cancel()
    await asyncio.gather(lost, return_exceptions=True)
    kit.enode.after = before
    return Door(kit, "extents")


async def never(call: str) -> None:
    await asyncio.Event().wait()


async def put_out(kit: Kit, joined: Any) -> None:
    leaving = LeaveGroupRequest(group_id="g", members=[LeaveGroupRequestMember(member_id=joined.member_id)])
    assert (await kit.client().ask(leaving, 4)).error_code == 0


def test_a_member_that_is_put_out_while_its_commit_waits_for_the_log_commits_nothing() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        joined = await member(kit)
        door = await closed(kit)
        asking = commit(kit, 5, generation_id_or_member_epoch=joined.generation_id, member_id=joined.member_id)
        committing = asyncio.ensure_future(asking)
        await door.reached.wait()
        await put_out(kit, joined)
        door.opened.set()
        assert await committing == ErrorCode.UNKNOWN_MEMBER_ID
        assert Partition("t", 0) not in await kit.offsets.committed("g")

    run(test)


def test_a_member_that_is_put_out_while_its_transaction_has_no_turn_commits_nothing_in_it() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        joined = await member(kit)
        writer = Writer(kit.client(), version=SECOND)
        assert await writer.init() == 0
        door = await closed(kit)
        asking = writer.commit_offsets("g", "t", 5, generation_id=joined.generation_id, member_id=joined.member_id)
        committing = asyncio.ensure_future(asking)
        await door.reached.wait()
        await put_out(kit, joined)
        door.opened.set()
        assert await committing == ErrorCode.UNKNOWN_MEMBER_ID
        assert not (await kit.offsets.standing("g")).undecided

    run(test)


def test_a_group_that_got_members_while_its_deletion_waits_for_the_log_is_not_deleted() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        assert await commit(kit, 5) == 0
        door = await closed(kit)
        deleting = asyncio.ensure_future(kit.client().ask(DeleteGroupsRequest(groups_names=["g"]), 2))
        await door.reached.wait()
        joining = asyncio.ensure_future(member(kit.client()))
        await until(kit, "CompletingRebalance")
        door.opened.set()
        assert (await deleting).results[0].error_code == ErrorCode.NON_EMPTY_GROUP
        await joining
        assert (await kit.offsets.committed("g"))[Partition("t", 0)].offset == 5

    run(test)
