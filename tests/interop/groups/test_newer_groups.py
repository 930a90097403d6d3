"""Members by ``group.protocol=consumer`` at our node: Java's and librdkafka's share, read, commit, and one goes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.testing import Broker
from tests.interop.groups.members import NEWER, TOPIC_PARTITIONS
from tests.interop.groups.test_mixed_groups import EVERYTHING, shared_by_all, until, write

pytestmark = pytest.mark.interop

BEAT_MS = 300


def meet(bootstrap: str, assignor: str) -> None:
    """Both share and read all; operators see them; one goes, the other reads on, from where the first had committed."""
    topic = f"newer-{assignor}"
    with penstock.Admin(f"kafka://{bootstrap}") as admin:
        admin.create_topics([penstock.NewTopic(topic, TOPIC_PARTITIONS)])
    members = [kind(bootstrap, topic, topic, assignor) for kind in NEWER.values()]
    first, second = members
    seen: Callable[[], list[int]] = lambda: sorted(value for each in members for value in each.values)  # noqa: E731
    first.start()
    try:
        until(lambda: first.holding == EVERYTHING, [first], "the first assignment")
        write(first, range(300))
        until(lambda: len(seen()) >= 300, [first], "reading alone")
        second.start()
        try:
            until(lambda: shared_by_all(members), members, "sharing")
            write(first, range(300, 600))
            until(lambda: len(seen()) >= 600, members, "reading")
            described_as_a_newer_group(bootstrap, topic, assignor)
        finally:
            second.stop()
        until(lambda: first.holding == EVERYTHING, [first], "taking over")
        write(first, range(600, 900))
        until(lambda: len(seen()) >= 900, [first], "reading on")
    finally:
        first.stop()
    assert seen() == [*range(900)], "nothing lost, nothing twice: nobody was in a hurry"


def described_as_a_newer_group(bootstrap: str, group: str, assignor: str) -> None:
    address = f"kafka://{bootstrap}"
    listed = json.loads(penstock_says("groups", "list", address, "--type", "consumer", "--json"))
    assert listed == {"group": group, "state": "Stable", "protocol": "consumer", "type": "consumer"}
    told = json.loads(penstock_says("groups", "describe", address, group, "--state", "--json"))
    assert (told["type"], told["state"], told["assignor"], told["members"]) == ("consumer", "Stable", assignor, 2)
    assert "generation" in penstock_says("groups", "explain", address, group)


def penstock_says(*words: str) -> str:
    command = [str(Path(sys.executable).with_name("penstock")), *words]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=60).stdout


@pytest.mark.parametrize("assignor", ["uniform", pytest.param("range", marks=pytest.mark.long)])
def test_javas_and_librdkafkas_members_share_a_group(assignor: str) -> None:
    with Broker(group_consumer_heartbeat_interval_ms=BEAT_MS) as broker:
        meet(broker.bootstrap, assignor)
