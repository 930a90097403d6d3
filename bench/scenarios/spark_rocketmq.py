"""A topic of a real RocketMQ broker into Spark's noop sink, against RocketMQ's own Java client without Spark.

RocketMQ has no connector that runs on Spark 4. So the rival is the client that a connector would use: the pull consumer
with its best settings, in one thread per queue, without building columns.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.rounds import rounds
from bench.scenarios.rocketmq import QUEUES, QUICK_SHARE, READ, SETTINGS, filled, measured
from bench.servers import kept
from bench.session import Session
from bench.spark_run import keep_rates
from tools.peers import rocketmq

__all__ = ["RIVALS", "run"]

SCENARIO = "spark-rocketmq"
VARIANT = "100 B"
JAVA = "Java pull, 1024 at once"
CASES = ("penstock", "penstock value", "penstock stream")
RIVALS: Mapping[str, Sequence[str]] = dict.fromkeys(CASES, (JAVA,))


def run(session: Session) -> None:
    """One session of Spark, then Java."""
    session.stop_kafka()
    with (
        tempfile.TemporaryDirectory(dir=kept()) as home,
        rocketmq.cluster(Path(home), settings=SETTINGS, heap="1g", quick=False) as cluster,
    ):
        topic, count = filled(session, cluster, READ // (QUICK_SHARE if session.quick else 1))
        there = sum(end for _, end in cluster.ends(topic).values())
        job = {"bootstrap": cluster.address, "topic": topic, "count": there, "partitions": QUEUES}
        keep_rates(session, SCENARIO, VARIANT, "bench.spark_rocketmq_case", job, CASES)
        for number, case in rounds((JAVA,), warm=session.warm, runs=session.runs):
            measured(session, SCENARIO, cluster, VARIANT, case, number, topic, count)
