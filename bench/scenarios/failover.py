"""One of three brokers is killed or stopped: the longest stall of any partition, for all clients at the same time."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from bench.goals import STALL_S
from bench.session import Session
from bench.watchers import READ, READ_RIVAL, WATCHERS, WRITE, WRITE_ARROW, WRITE_RIVAL, Stalls
from tools.peers.kafka_cluster import BROKERS, Cluster

__all__ = ["RIVALS", "run"]

RIVALS: Mapping[str, Sequence[str]] = {WRITE: [WRITE_RIVAL], WRITE_ARROW: [WRITE_RIVAL], READ: [READ_RIVAL]}
VARIANTS = ("killed", "stopped")
_TOPIC = "stalls"
_PARTITIONS = 6
_BEGUN_WITHIN_S = 60.0
_WARM_S = 4.0
_AWAY_S = 10.0


def run(session: Session) -> None:
    """Each round harms the next broker, and waits until all partitions have their leaders again."""
    with ExitStack() as stack:
        home = stack.enter_context(tempfile.TemporaryDirectory(prefix="penstock-failover-"))
        session.say("starting three brokers")
        cluster = stack.enter_context(Cluster(Path(home)))
        cluster.create_topic(_TOPIC, _PARTITIONS)
        over, stalls = threading.Event(), {case: Stalls() for case in WATCHERS}
        threads = [
            threading.Thread(target=watch, args=(cluster.bootstrap, _TOPIC, _PARTITIONS, over, stalls[case]))
            for case, watch in WATCHERS.items()
        ]
        for thread in threads:
            thread.start()
        try:
            for found in stalls.values():
                found.await_all(_PARTITIONS, _BEGUN_WITHIN_S)
            time.sleep(_WARM_S)
            for variant in VARIANTS:
                for number in range(session.runs):
                    _harm(cluster, variant, BROKERS[number % len(BROKERS)], stalls)
                    for case, found in stalls.items():
                        session.add("failover", variant, STALL_S, case, number, found.longest)
        finally:
            over.set()
            for thread in threads:
                thread.join()


def _harm(cluster: Cluster, how: str, broker: int, stalls: Mapping[str, Stalls]) -> None:
    for each in stalls.values():
        each.forget()
    cluster.kill(broker) if how == "killed" else cluster.stop(broker)
    time.sleep(_AWAY_S)
    cluster.start(broker)
    for partition in range(_PARTITIONS):
        cluster.await_in_sync(_TOPIC, partition)
    cluster.elect(_TOPIC, *range(_PARTITIONS))
    time.sleep(_WARM_S)
