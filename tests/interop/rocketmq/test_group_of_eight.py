"""Eight members behind two Snodes, while Snodes and brokers are killed and frozen: nothing lost, nothing held twice."""

from __future__ import annotations

import os
import threading
import time
from random import Random

import pytest

from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import RocketMQ
from tests.interop.rocketmq.group_of_eight import Eight, eight
from tests.interop.test_rocketmq_dies_under_load import Load
from tools.peers.rocketmq_frames import END, MEMBERS, ask

pytestmark = [pytest.mark.interop, pytest.mark.long]

SEED = int(os.environ.get("PENSTOCK_SEED", time.time_ns() % 1_000_000))
KILLS = 10
WITHIN_S = 120.0
HEARTBEAT_S = 30.0
ANSWER_S = 8.0
"""Documented: 2.5 s for a broker, for looking it up anew, and for a name server; a busy machine in between."""


def settled(group: Eight) -> None:
    """Every queue has one owner."""
    comes_to(group.owned, sorted(group.queues), WITHIN_S)


def writes(load: Load, more: int) -> None:
    """Goes on when so much more was sent, a hundred a second at most."""
    wanted = len(load.sent) + more
    comes_to(lambda: len(load.sent) >= wanted, True, WITHIN_S)


def everything_found(group: Eight, load: Load) -> None:
    """What was acknowledged has been given to somebody."""
    acknowledged = load.acknowledged
    assert len(acknowledged) > 200
    comes_to(lambda: sorted(acknowledged - group.found)[:20], [], WITHIN_S)


def test_nothing_is_lost_and_no_queue_has_two_owners_while_a_snode_is_killed_ten_times(
    rocketmq_own: RocketMQ,
) -> None:
    print(f"seed {SEED}")
    dice = Random(SEED)
    with eight(rocketmq_own("5.4.0")) as group:
        settled(group)
        group.owners.settled()
        with Load(group.address, "flow") as load:
            for _ in range(KILLS):
                snode = dice.choice(group.snodes)
                writes(load, dice.randint(50, 500))
                snode.kill()
                writes(load, dice.randint(0, 300))
                snode.start()
            writes(load, 500)
        overlaps = group.owners.settled()
        print(f"held twice: {overlaps}")
        assert max((seconds for _, seconds in overlaps), default=0.0) < HEARTBEAT_S
        everything_found(group, load)
        settled(group)


class Probe:
    """Asks a Snode for a queue's end and for the group's members all the time: how it answers, and how soon."""

    def __init__(self, port: int, broker: str) -> None:
        self._port = port
        self._broker = broker
        self._enough = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self.answers: list[tuple[int, int, float]] = []
        self.unanswered: list[OSError] = []

    @property
    def refused(self) -> list[int]:
        """Codes other than that all is well."""
        return [said for _, said, _ in self.answers if said]

    def _run(self) -> None:
        while not self._enough.wait(0.2):
            for code, fields in (
                (END, {"topic": "flow", "queueId": 0, "bname": self._broker}),
                (MEMBERS, {"consumerGroup": "eight"}),
            ):
                begun = time.monotonic()
                try:
                    said = ask(self._port, code, fields).code
                except OSError as error:
                    self.unanswered.append(error)
                else:
                    self.answers.append((code, said, time.monotonic() - begun))

    def __enter__(self) -> Probe:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._enough.set()
        self._thread.join()


def test_every_request_is_answered_while_a_broker_is_killed_frozen_and_back(rocketmq_own: RocketMQ) -> None:
    own = rocketmq_own("5.4.0", brokers=2)
    with eight(own) as group:
        settled(group)
        group.owners.settled()
        with (
            Load(group.address, "flow") as load,
            Probe(group.ports[0], "broker-1") as one,
            Probe(group.ports[1], "broker-1") as other,
        ):
            writes(load, 200)
            own.brokers[0].kill()
            comes_to(lambda: bool(one.refused and other.refused), True, WITHIN_S)
            writes(load, 100)  # less than a delivery may take
            own.brokers[0].start()
            writes(load, 300)
            before = len(one.refused), len(other.refused)
            own.brokers[0].freeze()
            comes_to(lambda: len(one.refused) > before[0] and len(other.refused) > before[1], True, WITHIN_S)
            writes(load, 100)
            own.brokers[0].thaw()
            writes(load, 300)
        answers = [*one.answers, *other.answers]
        print(
            f"codes {sorted({(code, said) for code, said, _ in answers})}, latest {max(s for *_, s in answers):.1f} s"
        )
        assert [*one.unanswered, *other.unanswered] == []
        assert {said for code, said, _ in answers if code == MEMBERS} == {0}
        assert {said for code, said, _ in answers if code == END} <= {0, 1, 2, 14, 17}
        assert max(seconds for *_, seconds in answers) < ANSWER_S
        overlaps = group.owners.settled()
        print(f"held twice: {overlaps}")
        assert max((seconds for _, seconds in overlaps), default=0.0) < HEARTBEAT_S
        everything_found(group, load)
        settled(group)
