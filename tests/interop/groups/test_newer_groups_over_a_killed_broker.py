"""Members of ours by ``group.protocol=consumer``, and a real broker that is killed under them and comes back."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import penstock
from tests.interop.groups.members import TOPIC_PARTITIONS, NewerOurs
from tests.interop.groups.test_mixed_groups import shared_by_all, until, write
from tests.interop.groups.test_newer_groups import QUICK
from tools.peers import kafka
from tools.peers.maven import Unavailable

pytestmark = [pytest.mark.interop, pytest.mark.long]

EACH = 300
PATIENT = {**QUICK, "group.consumer.session.timeout.ms": "45000"}
"""A session outlives the broker's start, so that members are known when they are back."""


@pytest.fixture
def killable(tmp_path: Path) -> Iterator[kafka.BrokerProcess]:
    try:
        with kafka.broker_process(tmp_path / "kafka", settings=PATIENT) as started:
            yield started
    except Unavailable as reason:
        pytest.skip(f"no Kafka {kafka.NEWEST} to test with: {reason}")


def test_members_go_on_where_they_were_and_what_they_committed_stands(killable: kafka.BrokerProcess) -> None:
    topic = f"survived-{uuid.uuid4().hex[:8]}"
    with penstock.Admin(killable.address) as admin:
        admin.create_topics([penstock.NewTopic(topic, TOPIC_PARTITIONS)])
    members = [NewerOurs(killable.endpoint, topic, topic, "uniform") for _ in range(3)]

    def read_by(count: int) -> bool:
        return len({value for each in members for value in each.values}) >= count

    with ExitStack() as ends:
        for each in members:
            each.start()
            ends.callback(each.stop)
        until(lambda: shared_by_all(members), members, "sharing")
        for killed in range(3):
            write(members[0], range(killed * EACH, (killed + 1) * EACH))
            until(lambda count=(killed + 1) * EACH: read_by(count), members, f"reading, killed {killed} times")  # type: ignore[misc]
            killable.kill()
            killable.start()
            until(lambda: shared_by_all(members), members, f"sharing, killed {killed + 1} times")
        write(members[0], range(3 * EACH, 4 * EACH))
        until(lambda: read_by(4 * EACH), members, "reading on")
    seen = sorted(value for each in members for value in each.values)
    assert {*seen} == {*range(4 * EACH)}, "nothing is lost"
    assert len(seen) - 4 * EACH <= 3 * EACH, "what comes again was not committed when the broker died"
    print(f"{len(seen) - 4 * EACH} of {4 * EACH} records came again")
    with penstock.Admin(killable.address) as admin:
        assert sum(each.lag or 0 for each in admin.group_offsets(admin.describe_group(topic))) == 0
