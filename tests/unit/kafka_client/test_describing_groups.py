"""Many groups described at once: few requests, each to who coordinates, and what goes wrong with one is its own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, ServerError
from penstock.interfaces.admin import GroupDescriptions
from penstock.model import Endpoint
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.wire.coordinator_admin import DescribeGroupsResponse, DescribeGroupsResponseGroup
from penstock.protocols.kafka.wire.groups import ConsumerGroupDescribeResponse, ConsumerGroupDescribeResponseGroup
from penstock.protocols.kafka.wire.offsets import FindCoordinatorResponse, FindCoordinatorResponseCoordinator
from tests.unit.kafka_client.scripted import Stage, go, stage

OPTIONS = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, api_timeout_ms=100, silent_node_patience_ms=20)
NOWHERE = Endpoint("nowhere", 9)
NOT_FOUND, LOADING, MOVED, DENIED = 69, 14, 16, 30
FIND_COORDINATOR = 10


class Groups:
    """``codes`` are what a group is refused with, one after the other; ``newer`` are of KIP-848, ``away`` elsewhere."""

    def __init__(self, it: Stage, codes: Mapping[str, list[int]], newer: Collection[str] = (), away: str = "") -> None:
        self.codes = {group: iter(each) for group, each in codes.items()}
        self.newer = newer

        def find(request, version):
            def node(key: str) -> dict[str, object]:
                at = NOWHERE if key == away else it.endpoint
                return {"node_id": 2 if key == away else 1, "host": at.host, "port": at.port}

            if version < 4:
                return FindCoordinatorResponse(**node(request.key))
            found = [FindCoordinatorResponseCoordinator(key=key, **node(key)) for key in request.coordinator_keys]
            return FindCoordinatorResponse(coordinators=found[::-1])  # in an order of its own

        it.broker.answers["FindCoordinator"] = find
        it.broker.answers["DescribeGroups"] = lambda request, version: DescribeGroupsResponse(
            groups=[self.older_group(name) for name in request.groups][::-1]
        )
        it.broker.answers["ConsumerGroupDescribe"] = lambda request, version: ConsumerGroupDescribeResponse(
            groups=[self.newer_group(name) for name in request.group_ids][::-1]
        )

    def older_group(self, name: str) -> DescribeGroupsResponseGroup:
        code = NOT_FOUND if name in self.newer else next(self.codes.get(name, iter(())), 0)
        return DescribeGroupsResponseGroup(group_id=name, error_code=code, group_state="Dead" if code else "Stable")

    def newer_group(self, name: str) -> ConsumerGroupDescribeResponseGroup:
        code = next(self.codes.get(name, iter(())), 0) if name in self.newer else NOT_FOUND
        return ConsumerGroupDescribeResponseGroup(group_id=name, error_code=code, group_state="Reconciling")


async def described(it: Stage, *groups: str) -> GroupDescriptions:
    found: GroupDescriptions = await it.client.admin().describe_groups(groups)
    return found


def code(error: PenstockError) -> int:
    assert isinstance(error, ServerError)
    return error.code


def test_a_coordinator_is_asked_for_two_hundred_at_once() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            Groups(it, {})
            names = [f"g{number}" for number in range(450)]
            found = await described(it, *names)
            assert list(found) == names
            assert {each.state for each in found.values()} == {"Stable"}
            assert [len(each.groups) for each in it.broker.asked("DescribeGroups")] == [200, 200, 50]
            assert len(it.broker.asked("FindCoordinator")) == 1

    go(body())


def test_a_group_that_is_refused_is_told_and_the_others_are_described() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            Groups(it, {"secret": [DENIED], "newer secret": [DENIED]}, newer=["new", "newer secret"])
            found = await described(it, "a", "secret", "new", "newer secret", "b")
            assert {name: each.type for name, each in found.items()} == {
                "a": "classic",
                "new": "consumer",
                "b": "classic",
            }
            assert {name: code(each) for name, each in found.failed.items()} == {
                "secret": DENIED,
                "newer secret": DENIED,
            }
            assert "'secret'" in found.failed["secret"].message
            assert len(it.broker.asked("DescribeGroups")) == len(it.broker.asked("ConsumerGroupDescribe")) == 1

    go(body())


def test_those_that_are_not_there_are_dead_and_asked_for_in_both_ways_together() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            Groups(it, {"gone": [NOT_FOUND], "away": [NOT_FOUND]})
            found = await described(it, "gone", "here", "away")
            assert [each.state for each in found.values()] == ["Dead", "Stable", "Dead"]
            assert [list(each.group_ids) for each in it.broker.asked("ConsumerGroupDescribe")] == [["gone", "away"]]

    go(body())


def test_only_what_has_moved_or_is_loading_is_asked_for_again() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            Groups(it, {"moved": [MOVED], "loading": [LOADING, LOADING]})
            found = await described(it, "moved", "here", "loading")
            assert list(found) == ["moved", "here", "loading"]
            asked = Counter(name for each in it.broker.asked("DescribeGroups") for name in each.groups)
            assert asked == {"moved": 2, "here": 1, "loading": 3}
            assert [list(each.coordinator_keys) for each in it.broker.asked("FindCoordinator")][1] == [
                "moved",
                "loading",
            ]

    go(body())


def test_a_coordinator_that_is_dead_costs_its_own_groups_only() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            Groups(it, {"slow": [LOADING] * 2}, away="lost")
            found = await described(it, "a", "lost", "slow")
            assert list(found) == ["a", "slow"]
            assert isinstance(found.failed["lost"], ConnectionLost)

    go(body())


def test_what_never_gets_ready_ends_with_its_own_error() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            Groups(it, {"a": [LOADING] * 10_000, "b": [MOVED] * 10_000})
            found = await described(it, "a", "b", "c")
            assert list(found) == ["c"]
            assert {name: code(each) for name, each in found.failed.items()} == {"a": LOADING, "b": MOVED}

    go(body())


def test_brokers_that_find_one_coordinator_a_request_are_asked_for_each() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            Groups(it, {})
            it.broker.highest[FIND_COORDINATOR] = 3
            assert list(await described(it, "a", "b", "a")) == ["a", "b"]
            assert [each.key for each in it.broker.asked("FindCoordinator")] == ["a", "b"]
            assert len(it.broker.asked("DescribeGroups")) == 1

    go(body())


def test_an_answer_to_another_question_is_no_answer() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            Groups(it, {})
            it.broker.answers["DescribeGroups"] = lambda request, version: DescribeGroupsResponse(
                groups=[DescribeGroupsResponseGroup(group_id=name) for name in ("a", "c")]
            )
            found = await described(it, "a", "b")
            assert not found
            assert {type(each) for each in found.failed.values()} == {ProtocolViolation}

    go(body())
