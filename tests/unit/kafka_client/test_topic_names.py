"""Requests that call topics by name go out in versions that have names, whatever newer ones the broker serves."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ServerError
from penstock.protocols.kafka.client.connection import ByVersion
from penstock.protocols.kafka.wire.declarations import last_with_names
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestTopic
from penstock.protocols.kafka.wire.framing import api_of, known
from penstock.protocols.kafka.wire.offsets import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestGroupTopic,
)
from penstock.protocols.kafka.wire.produce import (
    ProduceRequest,
    ProduceRequestTopic,
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestTopic,
)
from tests.unit.kafka_client.scripted import go, stage

REQUESTS = {
    "Produce": ProduceRequest(topic_data=[ProduceRequestTopic(name="events")]),
    "Fetch": FetchRequest(topics=[FetchRequestTopic(topic="events")]),
    "OffsetCommit": OffsetCommitRequest(group_id="g", topics=[OffsetCommitRequestTopic(name="events")]),
    "OffsetFetch": OffsetFetchRequest(
        groups=[OffsetFetchRequestGroup(group_id="g", topics=[OffsetFetchRequestGroupTopic(name="events")])]
    ),
    "TxnOffsetCommit": TxnOffsetCommitRequest(group_id="g", topics=[TxnOffsetCommitRequestTopic(name="events")]),
}


def test_these_are_all_the_requests_whose_newest_version_has_ids_only() -> None:
    pairs = [api_of(key) for key in known()]
    last = {pair.name: last_with_names(pair.request) for pair in pairs if pair is not None}
    assert {name: version for name, version in last.items() if version is not None} == {
        "Produce": 12,
        "Fetch": 12,
        "OffsetCommit": 9,
        "OffsetFetch": 9,
        "TxnOffsetCommit": 5,
    }


@pytest.mark.parametrize("name", REQUESTS)
@pytest.mark.parametrize("later", [False, True], ids=["plain", "by version"])
def test_the_name_arrives(name: str, later: bool) -> None:
    async def body() -> None:
        async with stage() as it:
            it.broker.answers[name] = it.broker.answers["ListGroups"] = lambda request, version: None
            plain = REQUESTS[name]
            message: object = ByVersion(type(plain), lambda version: plain) if later else plain
            await it.client._cluster.calls.send(it.endpoint, message)
            while not it.broker.asked(name):
                await it.client._cluster.calls.channel.sleep(0)
            assert "events" in repr(it.broker.asked(name)[0])

    go(body())


def test_a_broker_without_names_is_refused_rather_than_asked_for_nothing() -> None:
    async def body() -> None:
        async with stage() as it:
            link: Any = await it.client._cluster.calls.link(it.endpoint, "")
            link.state._ranges[0] = (13, 13)
            with pytest.raises(ServerError, match="serves Produce 13 to 13, this client 0 to 12"):
                await it.client._cluster.calls.send(it.endpoint, REQUESTS["Produce"])

    go(body())
