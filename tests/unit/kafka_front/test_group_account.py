"""A group's account is an option that only who asks for it by its name is told."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.protocols.kafka.wire import coordinator_admin
from penstock.protocols.kafka.wire.configs import DescribeConfigsRequest, DescribeConfigsRequestResource
from tests.unit.kafka_front.group_kit import member
from tests.unit.kafka_front.kit import Kit, run


async def options(kit: Kit, keys: Sequence[str] | None, version: int = 4) -> dict[str, str]:
    resource = DescribeConfigsRequestResource(resource_type=32, resource_name="g", configuration_keys=keys)
    (result,) = (await kit.ask(DescribeConfigsRequest(resources=[resource]), version)).results
    assert result.error_code == 0
    return {each.name: each.value or "" for each in result.configs}


def test_it_is_told_to_who_asks_for_it_and_to_nobody_else() -> None:
    async def test(kit: Kit) -> None:
        assert await options(kit, [coordinator_admin.REBALANCES_OPTION]) == {}
        await member(kit, reason="the first of all")
        told = await options(kit, [coordinator_admin.REBALANCES_OPTION])
        (rebalance,) = coordinator_admin.read_rebalances(told[coordinator_admin.REBALANCES_OPTION])
        assert [each.said for each in rebalance.reasons] == ["the first of all"]
        assert coordinator_admin.REBALANCES_OPTION not in await options(kit, None)
        assert coordinator_admin.REBALANCES_OPTION not in await options(kit, ["consumer.session.timeout.ms"])

    run(test)


def test_it_may_be_too_long_for_older_versions() -> None:
    async def test(kit: Kit) -> None:
        await member(kit)
        assert await options(kit, [coordinator_admin.REBALANCES_OPTION], 3) == {}

    run(test)


def test_an_account_of_many_long_names_fits() -> None:
    async def test(kit: Kit) -> None:
        name, known = "i" * 9_000, ""
        for _ in range(12):
            known = (await member(kit, member_id=known, group_instance_id=name, reason="r" * 9_000)).member_id
        told = await options(kit, [coordinator_admin.REBALANCES_OPTION])
        assert len(coordinator_admin.read_rebalances(told[coordinator_admin.REBALANCES_OPTION])) == 12

    run(test)
