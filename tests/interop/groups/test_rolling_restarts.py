"""Members that come, go and dawdle, at a real broker and at our node: what stays with others is read all the while."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import penstock
from penstock.config import OptionValue
from tests.interop.groups.rolling import PARTITIONS, Member, await_shared, running, shown
from tests.interop.node_or_kafka import node_or_kafka

pytestmark = [pytest.mark.interop, pytest.mark.long]

COOPERATIVE: Mapping[str, OptionValue] = {"assignors": "cooperative-sticky", "heartbeat_interval_ms": 300}


@pytest.fixture(scope="module", params=["kafka", "node"])
def address(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    home: Path = tmp_path_factory.mktemp("rolling")
    with node_or_kafka(request.param, home) as bootstrap:
        yield f"kafka://{bootstrap}"


@pytest.fixture
def topic(address: str) -> str:
    name = f"rolling-{uuid.uuid4().hex[:8]}"
    with penstock.Admin(address) as admin:
        admin.create_topics([penstock.NewTopic(name, PARTITIONS)])
    return name


def test_restarting_members_one_by_one_neither_loses_records_nor_holds_up_those_of_others(
    address: str, topic: str
) -> None:
    with running(address, topic, [COOPERATIVE] * 6) as (flow, members, writer):
        flow.forget()
        for place, leaving in enumerate(list(members)):
            leaving.stop()
            members[place] = leaving.again()
            await_shared(members)
        gaps, stalls = dict(flow.gaps), dict(flow.stalls)
        writer.stop()
        flow.wait(range(writer.written))
    print("longest gaps within an ownership, in seconds:", shown(gaps))
    print("longest gaps, whoever read:", shown(stalls))
    assert max(gaps.values()) < 10


def test_what_stays_is_read_while_the_group_waits_for_a_member_that_dawdles(address: str, topic: str) -> None:
    with running(address, topic, [COOPERATIVE] * 2) as (flow, members, writer):
        reading, dawdling = members
        dawdling.dawdles.set()
        third = Member(address, topic, "the third", flow, **COOPERATIVE)
        members.append(third)
        theirs = {each.id for each in reading.holding}
        begun = writer.written
        # Whatever is written from now on comes while the join cannot end.
        wanted = [
            begun + more + each for more in range(10 * PARTITIONS, 110 * PARTITIONS, PARTITIONS) for each in theirs
        ]
        flow.wait(wanted)
        assert not third.holding
        assert "revoked" not in reading.told
        dawdling.dawdles.clear()
        await_shared(members)
        writer.stop()
        flow.wait(range(writer.written))
