"""The table of scenarios: each module has ``run(session)``, and ``RIVALS`` unless all cases are compared with all."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from bench.scenarios import (
    cli,
    consume,
    decoding,
    failover,
    fresh,
    groups,
    hops,
    produce,
    rocketmq,
    rocketmq_front,
    serve,
    small,
    snode,
    snode_rocketmq,
    spark,
    spark_batches,
    spark_planning,
    spark_rocketmq,
    spark_sink,
    tubemq,
)
from bench.session import Session

__all__ = ["SCENARIOS", "Scenario"]


@dataclass(frozen=True, slots=True)
class Scenario:
    """``rivals``: the cases by which a case is divided; by default all that are not ours.

    ``parts``: the parts that ``--part`` can select.
    """

    run: Callable[[Session], None]
    about: str
    rivals: Mapping[str, Sequence[str]] = field(default_factory=dict)
    parts: Sequence[str] = ()


SCENARIOS: Mapping[str, Scenario] = {
    "decode": Scenario(decoding.run, "record batches to Arrow columns, no network"),
    "consume": Scenario(consume.run, "a topic of a real Kafka broker into Arrow"),
    "produce": Scenario(produce.run, "records to a real Kafka broker and to our snode", produce.RIVALS),
    "spark": Scenario(spark.run, "a topic of a real Kafka broker into Spark's noop sink", spark.RIVALS),
    "spark-jobs": Scenario(spark.run_jobs, "the same topic counted, aggregated, written to files", spark.JOBS_RIVALS),
    "spark-sink": Scenario(spark_sink.run, "from Spark into topics of a real Kafka broker", spark_sink.RIVALS),
    "spark-batches": Scenario(spark_batches.run, "micro-batches that read next to nothing", spark_batches.RIVALS),
    "spark-planning": Scenario(spark_planning.run, "reads that are planned and not run", spark_planning.RIVALS),
    "cli": Scenario(cli.run, "lines of a file to a topic of our snode and back, on the command line", cli.RIVALS),
    "snode": Scenario(snode.run, "start and idle memory of the snode; import penstock"),
    "serve": Scenario(serve.run, "clients reading from our snode and from a real Kafka broker", serve.RIVALS),
    "failover": Scenario(failover.run, "three real Kafka brokers, of which one dies", failover.RIVALS),
    "small": Scenario(small.run, "single records: sent and waited for, read as they come", small.RIVALS, small.PARTS),
    "fresh": Scenario(fresh.run, "fresh processes: to the first record, to the millionth, memory; idle consumers"),
    "groups": Scenario(groups.run, "large groups and many of them, at our node and at a real Kafka", groups.RIVALS),
    "hops": Scenario(hops.run, "how many files a request runs through"),
    "rocketmq": Scenario(rocketmq.run, "a real RocketMQ broker: reading and writing", rocketmq.RIVALS),
    "rocketmq-front": Scenario(
        rocketmq_front.run, "RocketMQ's Java client at our node and at a real broker", rocketmq_front.RIVALS
    ),
    "snode-rocketmq": Scenario(
        snode_rocketmq.run, "real RocketMQ brokers: direct, behind our Snode, behind its Proxy", snode_rocketmq.RIVALS
    ),
    "spark-rocketmq": Scenario(
        spark_rocketmq.run, "a topic of a real RocketMQ broker into Spark's noop sink", spark_rocketmq.RIVALS
    ),
    "tubemq": Scenario(tubemq.run, "a real TubeMQ broker: reading and writing", tubemq.RIVALS),
}
