"""The table of musts and goals: the ratio of samples that decides, and its required value."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

__all__ = [
    "ADDED_MS",
    "ALL_S",
    "BATCH_MS",
    "CPU",
    "CPU_ALL",
    "CPU_DONE",
    "CPU_EACH",
    "DONE_S",
    "FILES",
    "FIRST_S",
    "GOALS",
    "HELD_KB",
    "HELD_MB",
    "IDLE_SHARE",
    "LATENCY_MS",
    "MB",
    "PEAK_MB",
    "PLAN_S",
    "RATE",
    "REQUEST_MS",
    "SERVER_CPU",
    "SINGLE_RATE",
    "STALL_S",
    "START_S",
    "TASKS",
    "WAKE_MS",
    "Goal",
]

RATE = "M records/s"
CPU = "CPU s per M records"
CPU_EACH = "CPU µs per record"
BATCH_MS = "ms per micro-batch"
START_S = "s from start to the first batch's end"
STALL_S = "s, longest stall of a partition"
PLAN_S = "s to plan a read"
TASKS = "tasks of a read"
SINGLE_RATE = "records/s"
SERVER_CPU = "CPU µs of the server per record"
ADDED_MS = "ms more than direct at p50"
HELD_KB = "KB a held poll"
WAKE_MS = "ms from a send to a poll that it ends"
REQUEST_MS = "ms a request"
MB = "MB"
LATENCY_MS = "ms from send() to the reader"
FIRST_S = "s from start to the first record"
ALL_S = "s from start to the last record"
PEAK_MB = "MB at most"
CPU_ALL = "CPU s, start to end"
IDLE_SHARE = "% of a core"
DONE_S = "s until all is done"
CPU_DONE = "CPU s of the server"
HELD_MB = "MB of the server"
FILES = "files of penstock"
_FEW = "160 records a batch"


@dataclass(frozen=True, slots=True)
class Goal:
    """``case`` ÷ ``rival`` (the median of ``case`` without a rival), against a must (if there is one) and a goal."""

    what: str
    scenario: str
    variant: str
    metric: str
    case: str
    rival: str
    must: float | None
    goal: float
    smaller_is_better: bool = False
    unit: str = ""


GOALS: Sequence[Goal] = (
    Goal("decode to Arrow, 100 B ÷ aiokafka → Arrow", "decode", "100 B", RATE, "penstock", "aiokafka", 8, 12),
    Goal(
        "Kafka consume into Arrow, CRC on, RangeReader ÷ confluent-kafka consume() → Arrow",
        "consume", "100 B", RATE, "penstock RangeReader", "confluent-kafka", 5, 6,
    ),
    Goal("… Consumer ÷ the same", "consume", "100 B", RATE, "penstock Consumer", "confluent-kafka", 5, 6),
    Goal(
        "… RangeReader ÷ Java's ConsumerPerformance (tuned; fetch phase; builds no columns)",
        "consume", "100 B", RATE, "penstock RangeReader", "Java tuned", 1.5, 2,
    ),
    Goal("… Consumer ÷ the same", "consume", "100 B", RATE, "penstock Consumer", "Java tuned", 1.5, 2),
    Goal(
        "Spark source → noop, all columns, 100 B ÷ spark-sql-kafka with defaults",
        "spark", "100 B", RATE, "penstock", "connector", 2.5, 3.5,
    ),
    Goal("… ÷ tuned", "spark", "100 B", RATE, "penstock", "connector tuned", 1.3, 1.5),
    Goal(
        "… columns=value ÷ tuned connector selecting value",
        "spark", "100 B", RATE, "penstock value", "connector tuned value", 1.7, 2,
    ),
    Goal("… 1 KB values ÷ defaults", "spark", "1 KB", RATE, "penstock", "connector", 2, 2.2),
    Goal("… 1 KB values ÷ tuned", "spark", "1 KB", RATE, "penstock", "connector tuned", 0.95, 1.1),
    Goal(
        "… CPU-seconds per million rows ÷ tuned",
        "spark", "100 B", CPU, "penstock", "connector tuned", 0.8, 0.65, smaller_is_better=True,
    ),
    Goal("… 100 B lz4 ÷ defaults", "spark", "100 B lz4", RATE, "penstock", "connector", 2, 2.5),
    Goal("… 100 B lz4 ÷ tuned", "spark", "100 B lz4", RATE, "penstock", "connector tuned", 1, 1.25),
    Goal("… 1 KB lz4 ÷ defaults", "spark", "1 KB lz4", RATE, "penstock", "connector", 1.5, 2),
    Goal("… 1 KB lz4 ÷ tuned", "spark", "1 KB lz4", RATE, "penstock", "connector tuned", 0.85, 1),
    Goal(
        "… columns=value ÷ connector with defaults selecting value",
        "spark", "100 B", RATE, "penstock value", "connector value", 2.5, 4,
    ),
    Goal(
        "Spark stream, AvailableNow → noop ÷ connector with defaults",
        "spark", "100 B", RATE, "penstock stream", "connector stream", 1.5, 1.7,
    ),
    Goal("… ÷ tuned", "spark", "100 B", RATE, "penstock stream", "connector tuned stream", None, 1),
    Goal(
        "… in 5 batches (maxOffsetsPerTrigger) ÷ defaults",
        "spark", "100 B", RATE, "penstock stream limited", "connector stream limited", None, 1.7,
    ),
    Goal(
        "… in 5 batches ÷ tuned",
        "spark", "100 B", RATE, "penstock stream limited", "connector tuned stream limited", None, 1,
    ),
    Goal("Spark count() ÷ defaults", "spark-jobs", "100 B", RATE, "penstock count", "connector count", None, 2.1),
    Goal("… ÷ tuned", "spark-jobs", "100 B", RATE, "penstock count", "connector tuned count", None, 1),
    Goal(
        "Spark, windows of a minute ÷ defaults",
        "spark-jobs", "100 B", RATE, "penstock window", "connector window", None, 2.7,
    ),
    Goal("… ÷ tuned", "spark-jobs", "100 B", RATE, "penstock window", "connector tuned window", None, 1.2),
    Goal("Spark → Parquet ÷ defaults", "spark-jobs", "100 B", RATE, "penstock parquet", "connector parquet", None, 1.6),
    Goal("… ÷ tuned", "spark-jobs", "100 B", RATE, "penstock parquet", "connector tuned parquet", None, 1.1),
    Goal(
        "Spark, rows in memory → Kafka ÷ connector's sink with defaults",
        "spark-sink", "100 B", RATE, "penstock write", "connector write", None, 1,
    ),
    Goal("… ÷ tuned", "spark-sink", "100 B", RATE, "penstock write", "connector tuned write", None, 1),
    Goal(
        "Spark stream, topic → topic ÷ connector with defaults",
        "spark-sink", "100 B", RATE, "penstock copy", "connector copy", None, 1,
    ),
    Goal("… ÷ tuned", "spark-sink", "100 B", RATE, "penstock copy", "connector tuned copy", None, 1),
    Goal("… ÷ reading alone", "spark-sink", "100 B", RATE, "penstock copy", "penstock read", 0.2, 0.35),
    Goal(
        "Spark, next to empty micro-batch, 1 partition ÷ Spark's rate source",
        "spark-batches", _FEW, BATCH_MS, "penstock, 1 partition", "rate, 1 partition", 2.5, 2, smaller_is_better=True,
    ),
    Goal(
        "… 16 partitions ÷ 1 partition",
        "spark-batches", _FEW, BATCH_MS, "penstock, 16 partitions", "penstock, 1 partition", 1.5, 1.5,
        smaller_is_better=True,
    ),
    Goal(
        "Spark, from start() to the first batch's end, in a session that is warm",
        "spark-batches", _FEW, START_S, "penstock, 1 partition", "", 1.5, 0.6, smaller_is_better=True, unit=" s",
    ),
    Goal(
        "RocketMQ consume into Arrow, RangeReader ÷ Java's pull consumer at its best (builds no columns)",
        "rocketmq", "consume, 100 B", RATE, "penstock RangeReader", "Java pull, 1024 at once", 1, 2,
    ),
    Goal(
        "… ÷ Java's pull consumer with its defaults",
        "rocketmq", "consume, 100 B", RATE, "penstock RangeReader", "Java pull, 32 at once", 5, 5,
    ),
    Goal(
        "… both at a broker that gives 32 messages an answer",
        "rocketmq", "consume, 100 B", RATE, "penstock RangeReader, 32 at once", "Java pull, 32 at once", None, 5,
    ),
    Goal(
        "RocketMQ produce, Arrow ÷ Java's asynchronous send",
        "rocketmq", "produce, 100 B", RATE, "penstock send_batch (Arrow)", "Java async send", 0.5, 1,
    ),
    Goal(
        "our node: a RocketMQ send that is waited for, CPU",
        "rocketmq-front", "Java sync send", SERVER_CPU, "penstock snode", "", 80, 50, smaller_is_better=True,
        unit=" µs",
    ),
    Goal(
        "… by ten threads at once",
        "rocketmq-front", "Java sync send, ten threads", SERVER_CPU, "penstock snode", "", 80, 50,
        smaller_is_better=True, unit=" µs",
    ),
    Goal(
        "… with 2,000 in flight",
        "rocketmq-front", "Java async send", SERVER_CPU, "penstock snode", "", 80, 50, smaller_is_better=True,
        unit=" µs",
    ),
    Goal(
        "Snode before RocketMQ: pulls of 32 messages ÷ direct",
        "snode-rocketmq", "Java pull, 32 at once", SINGLE_RATE, "penstock snode", "RocketMQ, direct", 0.85, 0.95,
    ),
    Goal(
        "… sends that are waited for ÷ RocketMQ's Proxy",
        "snode-rocketmq", "Java sync send", SINGLE_RATE, "penstock snode", "RocketMQ Proxy", 1, 1.5,
    ),
    Goal(
        "… with 2,000 in flight ÷ Proxy",
        "snode-rocketmq", "Java async send", SINGLE_RATE, "penstock snode", "RocketMQ Proxy", 1, 1.5,
    ),
    Goal(
        "… a send that is waited for, added to direct",
        "snode-rocketmq", "Java sync send", ADDED_MS, "penstock snode", "", 0.35, 0.2, smaller_is_better=True,
        unit=" ms",
    ),
    Goal(
        "… its CPU",
        "snode-rocketmq", "Java sync send", SERVER_CPU, "penstock snode", "", 172, 60, smaller_is_better=True,
        unit=" µs",
    ),
    Goal(
        "… idle memory",
        "snode-rocketmq", "idle", MB, "penstock snode", "", 60, 45, smaller_is_better=True, unit=" MB",
    ),
    Goal(
        "… a thousand polls held, memory of each",
        "snode-rocketmq", "1000 polls held", HELD_KB, "penstock snode", "", 30, 10, smaller_is_better=True, unit=" KB",
    ),
    Goal(
        "… a message wakes all of them: p99 ÷ direct",
        "snode-rocketmq", "1000 polls held, p99", WAKE_MS, "penstock snode", "RocketMQ, direct", 2, 1.3,
        smaller_is_better=True,
    ),
    Goal(
        "TubeMQ consume into Arrow, RangeReader ÷ Java's client-balanced consumer (builds no columns)",
        "tubemq", "consume, 100 B", RATE, "penstock RangeReader", "Java balance (client-balanced)", 1, 2,
    ),
    Goal(
        "… Consumer in a group ÷ Java's server-balanced consumer",
        "tubemq", "consume, 100 B", RATE, "penstock Consumer, group", "Java pull (server-balanced)", 1, 2,
    ),
    Goal(
        "TubeMQ produce, Arrow ÷ Java's asynchronous send",
        "tubemq", "produce, 100 B", RATE, "penstock send_batch (Arrow)", "Java async send", 0.5, 1,
    ),
    Goal(
        "… send() one by one, client CPU ÷ the same",
        "tubemq", "produce, 100 B", CPU_EACH, "penstock Producer.send", "Java async send", 0.8, 0.5,
        smaller_is_better=True,
    ),
    Goal(
        "a broker dies: longest stall of a partition, writing, ÷ confluent-kafka",
        "failover", "killed", STALL_S, "penstock send_batch (Arrow)", "confluent-kafka produce()", 1.1, 1,
        smaller_is_better=True,
    ),
    Goal(
        "a broker dies: longest stall of a partition, reading, ÷ confluent-kafka",
        "failover", "killed", STALL_S, "penstock Consumer", "confluent-kafka consume()", 1.1, 1,
        smaller_is_better=True,
    ),
    Goal(
        "synchronous send, client CPU ÷ aiokafka",
        "small", "send and wait, Kafka", CPU_EACH, "penstock Producer", "aiokafka", 1, 0.5, smaller_is_better=True,
    ),
    Goal(
        "… rate ÷ confluent-kafka produce() and flush()",
        "small", "send and wait, Kafka", SINGLE_RATE, "penstock Producer", "confluent-kafka", 0.5, 1,
    ),
    Goal(
        "send() one by one ÷ confluent-kafka produce()",
        "produce", "to Kafka", RATE, "penstock Producer.send", "confluent-kafka produce()", 0.5, 0.8,
    ),
    Goal(
        "consumer at 500 records/s: p50 ÷ confluent-kafka",
        "small", "read 500 a second, Kafka, p50", LATENCY_MS, "penstock Consumer", "confluent-kafka", 2, 1.2,
        smaller_is_better=True,
    ),
    Goal(
        "… p99 ÷ the same",
        "small", "read 500 a second, Kafka, p99", LATENCY_MS, "penstock Consumer", "confluent-kafka", 2, 1.2,
        smaller_is_better=True,
    ),
    Goal(
        "… CPU ÷ the same",
        "small", "read 500 a second, Kafka", CPU_EACH, "penstock Consumer", "confluent-kafka", 2, 1.5,
        smaller_is_better=True,
    ),
    Goal(
        "node: CPU of a produce request of one record ÷ Kafka's broker",
        "small", "produce, connections: 1", SERVER_CPU, "snode", "Kafka", 2.5, 1.2, smaller_is_better=True,
    ),
    Goal(
        "node: CPU of a TubeMQ send",
        "small", "TubeMQ send, connections: 1", SERVER_CPU, "snode", "", 80, 50, smaller_is_better=True, unit=" µs",
    ),
    Goal(
        "node, a classic group of 1,000 members: until all have their shares ÷ Kafka",
        "groups", "classic group of 1,000, all join", DONE_S, "penstock snode", "Kafka", 2, 1, smaller_is_better=True,
    ),
    Goal(
        "… CPU while all join ÷ Kafka",
        "groups", "classic group of 1,000, all join", CPU_DONE, "penstock snode", "Kafka", 2, 1,
        smaller_is_better=True,
    ),
    Goal(
        "… a KIP-848 group: until all have their final shares ÷ Kafka",
        "groups", "KIP-848 group of 1,000, all join", DONE_S, "penstock snode", "Kafka", 2, 1, smaller_is_better=True,
    ),
    Goal(
        "… CPU while all join ÷ Kafka",
        "groups", "KIP-848 group of 1,000, all join", CPU_DONE, "penstock snode", "Kafka", 2, 1,
        smaller_is_better=True,
    ),
    Goal(
        "node, 2,000 groups: until all are stable ÷ Kafka",
        "groups", "2,000 groups, all join", DONE_S, "penstock snode", "Kafka", 2, 1, smaller_is_better=True,
    ),
    Goal(
        "… CPU while all join ÷ Kafka",
        "groups", "2,000 groups, all join", CPU_DONE, "penstock snode", "Kafka", 2, 1, smaller_is_better=True,
    ),
    Goal(
        "… described by our Admin ÷ the same of Kafka",
        "groups", "2,000 groups, Admin.describe_groups()", DONE_S, "penstock snode", "Kafka", 2, 1,
        smaller_is_better=True,
    ),
    Goal(
        "… memory with them ÷ Kafka (its JVM's heap included)",
        "groups", "2,000 groups, memory with it", HELD_MB, "penstock snode", "Kafka", 0.5, 0.25,
        smaller_is_better=True,
    ),
    Goal(
        "fresh process: start to the first record ÷ confluent-kafka",
        "fresh", "1 M records, Kafka", FIRST_S, "penstock Consumer", "confluent-kafka", 2, 1.3,
        smaller_is_better=True,
    ),
    Goal(
        "… of a topic of 10 ÷ the same",
        "fresh", "10 records, Kafka", FIRST_S, "penstock Consumer", "confluent-kafka", 2, 1.3,
        smaller_is_better=True,
    ),
    Goal(
        "… 1 M records and end ÷ the same",
        "fresh", "1 M records, Kafka", ALL_S, "penstock Consumer", "confluent-kafka", 1, 0.7,
        smaller_is_better=True,
    ),
    Goal(
        "… peak memory ÷ the same",
        "fresh", "1 M records, Kafka", PEAK_MB, "penstock Consumer", "confluent-kafka", 2, 1.3,
        smaller_is_better=True,
    ),
    Goal(
        "… peak memory ÷ the same with its defaults",
        "fresh", "1 M records, Kafka", PEAK_MB, "penstock Consumer", "confluent-kafka, its defaults", 2, 1.3,
        smaller_is_better=True,
    ),
    Goal(
        "consumer that idles",
        "fresh", "nothing to read, Kafka", IDLE_SHARE, "penstock Consumer", "", 0.1, 0.05,
        smaller_is_better=True, unit=" %",
    ),
    *(
        Goal(f"files on the way: {way}", "hops", way, FILES, "penstock", "", None, 14, smaller_is_better=True)
        for way in (
            "client: Kafka, send and wait",
            "client: Kafka, a lone record to poll",
            "client: TubeMQ, send and wait",
            "node: Kafka, produce",
            "node: RocketMQ, send",
            "Snode: RocketMQ, relayed pull",
        )
    ),
    Goal(
        "embedded snode: ready",
        "snode", "memory:", "s", "ready line", "", 0.3, 0.15, smaller_is_better=True, unit=" s",
    ),
    Goal(
        "embedded snode: idle memory",
        "snode", "memory:", "MB", "idle RSS", "", 60, 45, smaller_is_better=True, unit=" MB",
    ),
    Goal(
        "import penstock",
        "snode", "import", "ms", "import penstock", "", 60, 40, smaller_is_better=True, unit=" ms",
    ),
    Goal(
        "command line: lines of 100 B produced ÷ kcat",
        "cli", "produce lines of 100 B", RATE, "penstock", "kcat", None, 1,
    ),
    Goal("… consumed to text ÷ kcat", "cli", "consume to text", RATE, "penstock", "kcat", None, 1),
    Goal("… consumed to JSON ÷ kcat", "cli", "consume to JSON", RATE, "penstock", "kcat", None, 1),
)  # fmt: skip
