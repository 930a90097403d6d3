"""Scripts of offsets: commits of nobody, all versions of fetches, deletion, and views of operators."""

from __future__ import annotations

from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    ListGroupsRequest,
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from penstock.protocols.kafka.wire.offsets import (
    FindCoordinatorRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
    OffsetFetchRequestTopic,
)
from tests.interop.group_answers.asking import Asking
from tests.interop.wire import told

NO_ID = bytes(16)
WRONG_ID = b"\7" * 16


async def simple(asking: Asking) -> None:
    """A group that has never had a member."""
    nobody = await asking.member("n")
    for version in range(2, 11):
        asking.phase = f"v{version}"
        await nobody.commit(1, version, generation_id_or_member_epoch=3)
        await nobody.commit(1, version, member_id="x", generation_id_or_member_epoch=0)
        await nobody.commit(version, version)
        await nobody.commit(1, version, member_id="x")
        await nobody.commit(1, version, member_id="x", generation_id_or_member_epoch=0)
        if version >= 7:
            await nobody.commit(1, version, group_instance_id="i")
        for metadata in (None, "", "x" * 4_096, "x" * 4_097):
            await _commit(asking, version, metadata)
        await fetches(asking)
        await _delete(asking)
        await asking.note(nobody.wire, DescribeGroupsRequest(groups=[asking.group]), 6)
        await asking.note(nobody.wire, DeleteGroupsRequest(groups_names=[asking.group, asking.group, ""]), 2)
        await _delete(asking)
        await fetches(asking)
        await asking.another_group()


async def _commit(asking: Asking, version: int, metadata: str | None) -> None:
    """Of good and bad partitions together."""
    topics = [(asking.topic, asking.topic_id), ("missing", WRONG_ID), ("", NO_ID)]
    rows = [
        OffsetCommitRequestPartition(
            partition_index=number, committed_offset=offset, committed_leader_epoch=5, committed_metadata=metadata
        )
        for number, offset in ((0, 5), (1, -5), (9, 5), (-1, 5))
    ]
    message = OffsetCommitRequest(
        group_id=asking.group,
        topics=[
            OffsetCommitRequestTopic(
                name=name if version < 10 else "", topic_id=topic_id if version >= 10 else NO_ID, partitions=rows
            )
            for name, topic_id in topics
        ],
    )
    shown = None if metadata is None else len(metadata)
    await asking.note(await asking.wire(), message, version, f"commit with {shown}")


async def fetches(asking: Asking) -> None:
    """In all versions: what is there, what is not, everything; of one group and of several."""
    wire = await asking.wire()
    topics = [(asking.topic, [0, 1, 2, 9, -1]), ("missing", [0]), ("", [0]), (asking.topic, [2])]
    old = [OffsetFetchRequestTopic(name=name, partition_indexes=numbers) for name, numbers in topics]
    for version in range(1, 8):
        every = [old, None, []] if version >= 2 else [old]
        for wanted in every:
            for stable in (False, True) if version >= 7 else (False,):
                message = OffsetFetchRequest(group_id=asking.group, topics=wanted, require_stable=stable)
                await asking.note(wire, message, version)
    for version in range(8, 11):
        by_id = [(asking.topic_id, [0, 1, 9]), (WRONG_ID, [0]), (NO_ID, [1])]
        new = (
            [OffsetFetchRequestGroupTopic(name=name, partition_indexes=numbers) for name, numbers in topics]
            if version < 10
            else [OffsetFetchRequestGroupTopic(topic_id=name, partition_indexes=numbers) for name, numbers in by_id]
        )
        for wanted in (new, None, []):
            groups = [OffsetFetchRequestGroup(group_id=asking.group, topics=wanted) for _ in range(1)]
            groups += [OffsetFetchRequestGroup(group_id=name, topics=wanted) for name in ("missing", "")]
            await asking.note(wire, OffsetFetchRequest(groups=groups, require_stable=True), version)
        for member in (("x", 3), (None, -1), ("x", -1)):
            group = OffsetFetchRequestGroup(
                group_id=asking.group, topics=[], member_id=member[0], member_epoch=member[1]
            )
            await asking.note(wire, OffsetFetchRequest(groups=[group]), version, f"fetch v{version} as {member}")
        await asking.note(wire, OffsetFetchRequest(groups=[]), version, f"fetch v{version} of no group")


async def _delete(asking: Asking) -> None:
    wire = await asking.wire()
    for topics in ([], [asking.topic], ["missing"], [asking.topic, "missing", ""]):
        wanted = [
            OffsetDeleteRequestTopic(
                name=name, partitions=[OffsetDeleteRequestPartition(partition_index=each) for each in (0, 9, -1)]
            )
            for name in topics
        ]
        for group in (asking.group, "missing", ""):
            message = OffsetDeleteRequest(group_id=group, topics=wanted)
            shown = [asking.plain(each) for each in topics]
            await asking.note(wire, message, 0, f"delete {shown} of {asking.plain(group)}")


async def delete_of_members(asking: Asking) -> None:
    """OffsetDelete beside members: of topics that they read, and that they do not, and of other types."""
    one = await asking.member("a", protocols=[("range", b"\0")])
    for protocol_type, metadata in (("consumer", None), ("consumer", b"\0"), ("connect", b"\0"), ("consumer", b"")):
        asking.phase = f"{protocol_type} {metadata!r}"
        one = await asking.member("a", protocol_type=protocol_type)
        if metadata is not None:
            one.protocols = [("range", metadata)]
        pending = await asking.member("p", protocol_type=protocol_type, protocols=one.protocols)
        await (await one.enter())
        asking.phase += " completing"
        await _delete(asking)
        asking.phase += " stable"
        await one.lead()
        await one.commit(1)
        await one.commit(1, partition=1)
        await _delete(asking)
        await pending.join()
        asking.phase += " left"
        await one.leave()
        await asking.until("Empty", 0)
        await _delete(asking)
        await asking.note(
            one.wire, OffsetFetchRequest(groups=[OffsetFetchRequestGroup(group_id=asking.group, topics=None)]), 8
        )
        await asking.note(one.wire, DeleteGroupsRequest(groups_names=[asking.group]), 2)
        await asking.another_group()


async def lists(asking: Asking) -> None:
    """ListGroups with its filters, of groups in each state; DescribeGroups and DeleteGroups of many."""
    wire = await asking.wire()
    names = {}
    for state in ("Simple", "Handed out", "Completing", "Stable", "Left", "Preparing"):
        one = await asking.member("a", client=state, protocol_type="consumer" if state != "Stable" else "connect")
        names[state] = asking.group
        asking.phase = state
        if state == "Simple":
            await one.commit(1)
        elif state == "Handed out":
            await one.join()
        else:
            await (await one.enter())
            if state != "Completing":
                await one.lead()
            if state == "Left":
                await one.leave()
            if state == "Preparing":
                two = await asking.member("b")
                joining = await two.enter()
                await asking.until("PreparingRebalance", 2)
        await asking.another_group()
    asking.phase = "lists"
    every = {*names.values()}
    filters: list[tuple[list[str], list[str]]] = [([], [])]
    filters += [
        ([each], []) for each in ("Empty", "empty", "STABLE", "PreparingRebalance", "Dead", "Assigning", "x", "")
    ]
    filters += [([], [each]) for each in ("classic", "Classic", "consumer", "share", "streams", "unknown", "x", "")]
    filters += [(["Empty", "Stable"], ["classic", "consumer"]), (["Stable"], ["consumer"])]
    for version in range(6):
        for states, types in filters:
            if (states and version < 4) or (types and version < 5):
                continue
            answer = await wire.ask(ListGroupsRequest(states_filter=states, types_filter=types), version)
            rows = sorted(repr(asking.plain(each)) for each in answer.groups if each.group_id in every)
            asking.found[asking.label(f"v{version} {states} {types}")] = (answer.error_code, rows)
    for version in range(7):
        groups = [*names.values(), "missing", "", names["Left"]]
        await asking.note(wire, DescribeGroupsRequest(groups=groups), version)
        await asking.note(wire, DescribeGroupsRequest(groups=[]), version)
    for version in range(3):
        groups = [names["Handed out"], names["Preparing"], names["Stable"], names["Completing"], "missing", ""]
        await asking.note(wire, DeleteGroupsRequest(groups_names=groups), version)
        await asking.note(wire, DeleteGroupsRequest(groups_names=[]), version)
    joining.cancel()


async def coordinators(asking: Asking) -> None:
    """FindCoordinator in all versions, of keys and types that there are, and that there are not."""
    wire = await asking.wire()

    async def ready() -> int:
        message = FindCoordinatorRequest(coordinator_keys=["t"], key_type=1)
        return int((await wire.ask(message, 4)).coordinators[0].error_code)

    await told(ready)  # a real one makes the topic of transactions when it is first asked
    for version in range(7):
        for kind in (0, 1, 2, 9, -1) if version else (0,):
            for key in ("", asking.group, "a:b", f"{asking.group}:AAAAAAAAAAAAAAAAAAAAAA:0"):
                message = (
                    FindCoordinatorRequest(key=key, key_type=kind)
                    if version < 4
                    else FindCoordinatorRequest(coordinator_keys=[key, key], key_type=kind)
                )
                await asking.note(wire, message, version, f"{asking.plain(key)!r} of type {kind} v{version}")
        if version >= 4:
            await asking.note(wire, FindCoordinatorRequest(coordinator_keys=[]), version, f"none v{version}")


SCRIPTS = {
    "simple": simple,
    "delete_of_members": delete_of_members,
    "lists": lists,
    "coordinators": coordinators,
}
