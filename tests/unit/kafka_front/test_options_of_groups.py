"""Options of single groups: set, checked, in force at the next heartbeat, and kept.

The words of refusals are compared with a real broker's in `tests/interop/test_admin_answers.py`.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.errors import StoreError
from penstock.protocols.kafka.groups.consumer_group import ConsumerGroupSettings
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from penstock.protocols.kafka.wire.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
    ListConfigResourcesRequest,
)
from penstock.protocols.kafka.wire.groups import ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest
from penstock.store import open_store
from tests.unit.kafka_front.kit import Kit, run, serving

SESSION, HEARTBEAT = "consumer.session.timeout.ms", "consumer.heartbeat.interval.ms"
SET, DELETE = 0, 1
BROAD = KafkaFrontOptions(
    newer_groups=ConsumerGroupSettings(min_session_timeout_ms=20, min_heartbeat_interval_ms=5, heartbeat_interval_ms=10)
)


async def change(kit: Kit, name: str, value: str | None, group: str = "g", *, only_check: bool = False) -> Any:
    one = IncrementalAlterConfigsRequestConfig(
        name=name, config_operation=DELETE if value is None else SET, value=value
    )
    resource = IncrementalAlterConfigsRequestResource(resource_type=32, resource_name=group, configs=[one])
    asked = IncrementalAlterConfigsRequest(resources=[resource], validate_only=only_check)
    answer = (await kit.ask(asked, 1)).responses[0]
    return answer.error_code, answer.error_message


async def option(kit: Kit, name: str, group: str = "g") -> tuple[str, int, list[tuple[str, str, int]]]:
    resource = DescribeConfigsRequestResource(resource_type=32, resource_name=group, configuration_keys=[name])
    answer = await kit.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
    (row,) = answer.results[0].configs
    return row.value, row.config_source, [(each.name, each.value, each.source) for each in row.synonyms]


async def come(kit: Kit, group: str = "g", **given: Any) -> Any:
    wanted = {"rebalance_timeout_ms": 60_000, "subscribed_topic_names": ["t"], "topic_partitions": [], **given}
    return await kit.ask(ConsumerGroupHeartbeatRequest(group_id=group, member_id="a", **wanted), 1)


def test_an_option_is_set_shown_and_taken_away() -> None:
    async def test(kit: Kit) -> None:
        assert await change(kit, SESSION, " 50000 ") == (0, None)
        default = ("group.consumer.session.timeout.ms", "45000", 5)
        assert await option(kit, SESSION) == ("50000", 8, [(SESSION, "50000", 8), default])
        assert await option(kit, SESSION, "h") == ("45000", 5, [default])
        listed = (await kit.ask(ListConfigResourcesRequest(resource_types=[32]), 1)).config_resources
        assert [(each.resource_name, each.resource_type) for each in listed] == [("g", 32)]
        assert await change(kit, SESSION, None) == (0, None)
        assert await option(kit, SESSION) == ("45000", 5, [default])
        assert not (await kit.ask(ListConfigResourcesRequest(resource_types=[32]), 1)).config_resources
        assert await change(kit, "share.auto.offset.reset", None) == (0, None)  # nor was it there before

    run(test)


def test_what_is_only_to_be_checked_changes_nothing() -> None:
    async def test(kit: Kit) -> None:
        assert await change(kit, SESSION, "50000", only_check=True) == (0, None)
        assert (await change(kit, SESSION, "1", only_check=True))[0] == 40
        assert (await option(kit, SESSION))[0] == "45000"

    run(test)


def test_all_of_a_group_are_replaced_at_once() -> None:
    async def test(kit: Kit) -> None:
        await change(kit, SESSION, "50000")
        resource = AlterConfigsRequestResource(
            resource_type=32, resource_name="g", configs=[AlterConfigsRequestConfig(name=HEARTBEAT, value="6000")]
        )
        assert (await kit.ask(AlterConfigsRequest(resources=[resource]), 2)).responses[0].error_code == 0
        assert ((await option(kit, SESSION))[0], (await option(kit, HEARTBEAT))[0]) == ("45000", "6000")

    run(test)


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        (SESSION, "44999", f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        (SESSION, "60001", f"{SESSION} must be in the range 45000 to 60000 inclusive."),
        (HEARTBEAT, "4999", f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
        (HEARTBEAT, "15001", f"{HEARTBEAT} must be in the range 5000 to 15000 inclusive."),
        (SESSION, "x", f"Invalid value x for configuration {SESSION}: Not a number of type INT"),
        ("consumer.assignment.interval.ms", "5", "consumer.assignment.interval.ms is 0 for all groups of this node"),
        ("share.session.timeout.ms", "45000", "share.session.timeout.ms is for share groups"),
        ("errors.deadletterqueue.topic.name", "t", "errors.deadletterqueue.topic.name is for share groups"),
        ("nope", "1", "Unknown group config name: nope"),
    ],
)
def test_what_cannot_be_is_refused_in_words(name: str, value: str, words: str) -> None:
    async def test(kit: Kit) -> None:
        code, message = await change(kit, name, value)
        assert (code, message.startswith(words)) == (40, True), message
        assert not kit.front._shared.groups.newer.groups_with_options()

    run(test)


def test_an_interval_must_be_shorter_than_the_session() -> None:
    async def test(kit: Kit) -> None:
        await change(kit, SESSION, "30")
        code, message = await change(kit, HEARTBEAT, "30")
        assert (code, message) == (40, f"{SESSION} must be greater than {HEARTBEAT}")

    run(test, BROAD)


def test_members_are_told_with_their_next_heartbeat_and_other_groups_are_not() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        came = await come(kit)
        await change(kit, HEARTBEAT, "6000")
        beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="a", member_epoch=came.member_epoch)
        assert (came.heartbeat_interval_ms, (await kit.ask(beat, 1)).heartbeat_interval_ms) == (5_000, 6_000)
        assert (await come(kit, "h")).heartbeat_interval_ms == 5_000

    run(test)


def test_a_member_is_gone_after_its_groups_own_session_timeout() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await change(kit, SESSION, "30")
        for group in ("g", "h"):
            await come(kit, group)
        async with asyncio.timeout(5):
            while (await state_of(kit, "g")) != "Empty":
                await kit.runtime.sleep(0.005)
        assert await state_of(kit, "h") == "Stable"

    run(test, BROAD)


async def state_of(kit: Kit, group: str) -> str:
    state: str = (await kit.ask(ConsumerGroupDescribeRequest(group_ids=[group]), 1)).groups[0].group_state
    return state


def test_they_are_kept_over_a_restart() -> None:
    async def test() -> None:
        store = open_store("memory:")
        async with serving(store=store) as kit:
            await change(kit, HEARTBEAT, "6000")
            await change(kit, HEARTBEAT, "7000", "h")
            await change(kit, HEARTBEAT, None, "h")
        async with serving(store=store) as kit:
            kit.store.create_topic("t", 1)
            assert (await come(kit)).heartbeat_interval_ms == 6_000
            assert (await come(kit, "h")).heartbeat_interval_ms == 5_000
        store.close()

    asyncio.run(test())


def test_what_the_log_refuses_is_not_in_force() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        keeper: Any = kit.front._shared.groups.newer

        class Refusing:
            async def append(self, place: int, compose: Any) -> None:
                compose()
                raise StoreError("no room")

        keeper._options._journal = Refusing()
        assert (await change(kit, HEARTBEAT, "6000"))[0] != 0
        assert (await option(kit, HEARTBEAT))[0] == "5000"
        assert (await come(kit)).heartbeat_interval_ms == 5_000

    run(test)
