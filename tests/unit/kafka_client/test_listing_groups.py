"""Groups are listed by every broker: what is said where one of them has just died."""

from __future__ import annotations

import pytest

from penstock.errors import ConnectionLost, ServerError
from penstock.interfaces.admin import GroupListings
from penstock.model import Endpoint
from penstock.protocols.kafka.client.connection import KafkaOptions
from penstock.protocols.kafka.wire.coordinator_admin import ListGroupsResponse, ListGroupsResponseGroup
from tests.unit.kafka_client.scripted import Stage, go, metadata, stage

OPTIONS = KafkaOptions(retry_backoff_ms=1, retry_backoff_max_ms=2, silent_node_patience_ms=50)
NOWHERE = Endpoint("nowhere", 9)


def listing(it: Stage, *codes: int) -> None:
    said = iter(codes)
    it.broker.answers["ListGroups"] = lambda request, version: ListGroupsResponse(
        error_code=next(said, 0), groups=[ListGroupsResponseGroup(group_id="g", protocol_type="consumer")]
    )


async def groups(it: Stage) -> GroupListings:
    found = await it.client.admin().groups()
    assert isinstance(found, GroupListings)
    return found


def test_the_others_answer_and_who_did_not_is_named() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            listing(it)
            it.broker.answers["Metadata"] = metadata({1: it.endpoint, 2: NOWHERE}, {})
            found = await groups(it)
            assert [each.group for each in found] == ["g"]
            assert [(node.name, node.endpoint) for node in found.unreachable] == [("2", NOWHERE)]
            assert len(it.broker.asked("ListGroups")) == 1

    go(body())


def test_who_is_there_is_asked_anew() -> None:
    async def body() -> None:
        async with stage(KafkaOptions(retry_backoff_ms=1, silent_node_patience_ms=10_000)) as it:
            listing(it)
            both, alone = metadata({1: it.endpoint, 2: NOWHERE}, {}), metadata({1: it.endpoint}, {})
            it.broker.answers["Metadata"] = lambda request, version: (
                both(request, version) if len(it.broker.asked("Metadata")) < 4 else alone(request, version)
            )
            found = await groups(it)
            assert ([each.group for each in found], found.unreachable) == (["g"], ())

    go(body())


def test_a_broker_that_is_loading_is_waited_for_and_one_that_refuses_is_told() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            it.broker.answers["Metadata"] = metadata({1: it.endpoint}, {})
            listing(it, *[14] * 40)
            assert [each.group for each in await groups(it)] == ["g"]
            listing(it, 29)
            with pytest.raises(ServerError, match="listing groups failed"):
                await groups(it)

    go(body())


def test_where_nobody_answers_that_is_the_error() -> None:
    async def body() -> None:
        async with stage(OPTIONS) as it:
            it.broker.answers["Metadata"] = metadata({2: NOWHERE}, {})
            with pytest.raises(ConnectionLost):
                await groups(it)

    go(body())
