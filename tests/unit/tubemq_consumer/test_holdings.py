"""Partitions that one consumer holds, where the engine's wishes and the master's meet: without any server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.errors import ServerError
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.tubemq.client.assigned_partitions import AssignedPartitions, Event, Holding, State
from penstock.protocols.tubemq.client.cluster import Shared

ZERO = Partition("demo", 0, "1")
WAYS = {
    State.ASKED: [Event.ASK],
    State.DRAINING: [Event.ASK, Event.ACCEPTED, Event.SELECT, Event.REVOKE],
    State.LEAVING: [Event.ASK, Event.ACCEPTED, Event.REVOKE],
    State.GONE: [Event.REVOKE],
}


def holdings() -> AssignedPartitions:
    """Of a consumer that asks no broker anything."""
    options = SimpleNamespace(client_id="me", tube=SimpleNamespace(query_priority=-2))
    channel = SimpleNamespace(monotonic=lambda: 0.0)
    return AssignedPartitions(cast(Shared, SimpleNamespace(options=options, channel=channel)), "readers", "me")


def in_state(each: AssignedPartitions, way: Sequence[Event]) -> Holding:
    found = each.want(ZERO, Node("1", Endpoint("127.0.0.1", 8123)))
    for event in way:
        given: dict[str, Any] = {"token": 1} if event is Event.SELECT else {}
        found.booked.see(event, 0.0, **given)
    return found


@pytest.mark.parametrize("state", WAYS, ids=lambda state: state.name)
def test_what_is_on_its_way_to_us_or_from_us_is_not_asked_for_and_may_be_wanted_again(state: State) -> None:
    ours = holdings()
    holding = in_state(ours, WAYS[state])
    assert holding.booked.state is state
    with pytest.raises(ServerError, match="not this consumer's") as raised:
        asyncio.run(ours.register(holding))
    assert raised.value.retriable
    assert holding.booked.state is state
