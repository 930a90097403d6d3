"""Tables of samples as text and as Markdown, and the page RESULTS.md. It only reads samples."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.goals import (
    ALL_S,
    BATCH_MS,
    CPU,
    CPU_ALL,
    CPU_DONE,
    CPU_EACH,
    DONE_S,
    FIRST_S,
    HELD_MB,
    IDLE_SHARE,
    LATENCY_MS,
    PEAK_MB,
    PLAN_S,
    RATE,
    SERVER_CPU,
    SINGLE_RATE,
    STALL_S,
    START_S,
)
from bench.samples import Sample, ratio, select, spread
from bench.verdicts import judge

__all__ = ["OURS", "markdown", "page", "tables"]

_DIVIDED = frozenset({
    RATE, CPU, CPU_EACH, BATCH_MS, START_S, STALL_S, PLAN_S,
    SINGLE_RATE, SERVER_CPU, LATENCY_MS, FIRST_S, ALL_S, PEAK_MB, CPU_ALL, IDLE_SHARE,
    DONE_S, CPU_DONE, HELD_MB,
})  # fmt: skip

OURS = "penstock"
"""Cases whose names begin with this are ours; all others are rivals."""

Rows = Sequence[Sequence[str]]


def tables(samples: Sequence[Sample], rivals: Mapping[str, Sequence[str]]) -> list[tuple[str, Rows]]:
    """A table per (scenario, variant, metric), in order of first appearance: title and rows; the first is the head."""
    keys = dict.fromkeys((sample.scenario, sample.variant, sample.metric) for sample in samples)
    found = []
    for scenario, variant, metric in keys:
        comparable = select(samples, scenario, variant, metric)
        loads = [sample.load for sample in comparable]
        title = f"{scenario}, {variant}: {metric} (load {min(loads):.1f}-{max(loads):.1f})"
        found.append((title, _rows(comparable, rivals)))
    return found


def _rows(samples: Sequence[Sample], rivals: Mapping[str, Sequence[str]]) -> Rows:
    cases = list(dict.fromkeys(sample.case for sample in samples))
    rows = [["case", "rounds", "min", "median", "max", "ratios: median (min-max) of the rounds' ratios"]]
    for case in cases:
        found = spread(samples, case)
        assert found is not None
        others = [other for other in cases if not _ours(other)] if _ours(case) else []
        against = rivals.get(case, others)
        if samples[0].metric not in _DIVIDED:
            against = []
        figures = [_figure(value) for value in (found.least, found.median, found.most)]
        rows.append([case, str(found.rounds), *figures, "; ".join(_ratio(samples, case, rival) for rival in against)])
    return rows


def _ours(case: str) -> bool:
    return case.startswith(OURS)


def _ratio(samples: Sequence[Sample], case: str, rival: str) -> str:
    found = ratio(samples, case, rival)
    return f"÷ {rival} {found.median:.2f} ({found.least:.2f}-{found.most:.2f})" if found else f"÷ {rival} –"


def _figure(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}" if value >= 20 else f"{value:.3f}"


def text(rows: Rows) -> str:
    """Rows in aligned columns, numbers to the right."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = []
    for row in rows:
        cells = [row[0].ljust(widths[0])]
        cells += [cell.rjust(width) for cell, width in zip(row[1:-1], widths[1:-1], strict=True)]
        lines.append("  ".join([*cells, row[-1]]).rstrip())
    return "\n".join(lines)


def markdown(rows: Rows) -> str:
    """Rows as a Markdown table."""
    head, *body = rows
    marks = ["---", *["---:"] * (len(head) - 2), "---"]
    return "\n".join(f"| {' | '.join(row)} |" for row in [head, marks, *body])


def verdict_rows(samples: Sequence[Sample]) -> Rows:
    """Goals and measured values."""
    rows = [["what", "must", "goal", "measured", "verdict"]]
    for verdict in judge(samples):
        goal = verdict.goal
        value = "–" if verdict.value is None else f"{verdict.value:.2f}{goal.unit}"
        must = "–" if goal.must is None else f"{goal.must:g}{goal.unit}"
        rows.append([goal.what, must, f"{goal.goal:g}{goal.unit}", value, verdict.word])
    return rows


def page(
    runs: Sequence[tuple[Mapping[str, str], Sequence[Sample]]], rivals: Mapping[str, Mapping[str, Sequence[str]]]
) -> str:
    """RESULTS.md: goals and verdicts, then for each scenario its machine facts and tables."""
    every = [sample for _, samples in runs for sample in samples]
    parts = [_HEAD, "## Goals\n", markdown(verdict_rows(every)), ""]
    for facts, samples in runs:
        if not samples:
            continue
        scenario = samples[0].scenario
        parts += [f"## {scenario}\n", _ABOUT.get(scenario, ""), ""]
        for title, rows in tables(samples, rivals.get(scenario, {})):
            parts += [f"**{title}**\n", markdown(rows), ""]
        parts += ["Measured " + ", ".join(f"{name} {value}" for name, value in facts.items()) + ".", ""]
    return "\n".join(parts)


_HEAD = """# Speed

Written by `./dev bench --write` from the last full run of each scenario (`bench/results/*.jsonl`, one sample a line).
Every figure stands beside its rival's from the same run, on the same machine, cases in alternating order, the first
rounds discarded, checksums equal. A ratio is the median of the rounds' ratios. Absolute figures belong to this machine;
ratios travel further.
"""

_ABOUT = {
    "decode": "Record batches in memory to Arrow columns; no network.",
    "consume": (
        "A topic of a real Kafka broker over loopback into Arrow columns key, value, offset, timestamp; CRCs checked. "
        "Each case in a fresh process. The clock starts when the first messages are there and does not count them; the "
        f"broker shares the cores. {CPU_EACH} counts the client's process only."
    ),
    "produce": "From first send to last acknowledgement; acks=all, idempotent, linger 5 ms, batches of 256 KiB.",
    "spark": (
        "A batch query from the topic into the noop sink, or a stream with AvailableNow; one JVM, two cores shared "
        "with the broker, Unix sockets on. CPU is that of the JVM and its Python workers, the broker's not counted."
    ),
    "spark-jobs": (
        "Batch queries over the same topic, one JVM: `count()`; records and bytes by minute of the timestamp and by "
        "partition; all columns into Parquet files (snappy), which are read again to count them."
    ),
    "spark-sink": (
        "`write` is a batch of two million rows (key, value) that are in memory; `copy` an AvailableNow stream from "
        "topic to topic, each side with its own source; `read` the same stream into nothing. Four partitions, no "
        "compression, acks=all and idempotence on both sides, by default and said; one node. `exactly-once` is in "
        "transactions, which Spark's sink does not have. Tuned: linger 20 ms, batches of 256 KiB, 128 MiB of memory; "
        "the source tuned too. Ours has its defaults. Topics are counted after each round, read back before them."
    ),
    "spark-batches": (
        "Streams triggered without a pause, 160 records in each batch, from topics of 1 and of 16 partitions, into the "
        "noop sink; Spark starts no batch without new data. The median of 25 batches of a query, from Spark's own "
        "progress (triggerExecution), three discarded. Phases stand in the results file."
    ),
    "spark-planning": (
        "From naming the source of a batch query until Spark has its tasks, in a session of two cores that is warm; "
        "topics of 1, 16 and 200 partitions with 100 records each. Nothing is read. `a task a partition` is "
        "`minPartitions`; without it ours puts partitions together by the cores that there are."
    ),
    "failover": (
        "Three real Kafka brokers, six partitions of three replicas, all clients at once; a broker is killed (noticed "
        "after 3 s) or stopped in order, the next one in each round. The longest time in which a partition had no "
        "record acknowledged, or read."
    ),
    "snode": (
        "Start and idle memory of `python -m penstock.cli snode`; `import penstock` in a fresh process. "
        "Imports are timed as the whole process, less a bare interpreter's in the same round."
    ),
    "small": (
        "Single records of 100 bytes; nobody lingers. Latency is from the call that sends to the loop over what was "
        "read, in another process. CPU is the client's alone, unless it says server. Clients are at one server at a "
        "time, on the cores that it has as well; Java's are warm before they count (10,000 sends, 5,000 reads, 3,000 "
        "commits), each in a JVM of its own.\n\n"
        "Requests are the same bytes to both servers, in turn, each of which has had 20,000 of the kind before; the "
        "server's CPU is counted from the first to the last, per request. Over several connections each has one "
        "request under way. `fetch at the end` lies there until a record comes, for all connections at once, and has "
        "that record's produce in it, once for all of them. A real client's sends are waited for one by one by each of "
        "its producers, all in one process.\n\n"
        "TubeMQ's readers wait 10 ms after an answer without messages, ours as Java's, and confirm locally; what they "
        "read is written by Java, 500 a second, after 10,000 messages that are not counted. The server's CPU there is "
        "that of sending as well."
    ),
    "fresh": (
        "Each case is a process of its own, from before Python starts; four partitions, values of 100 bytes, no group; "
        "modules have been compiled, and the compiled kernels are in their folder. confluent-kafka has the settings "
        "that it reads fastest with, and in a row of its own its defaults. Memory is the process's highest. An idle "
        "consumer polls for 5 s at a time."
    ),
    "hops": (
        "Thirty requests of each way after two hundred, with every Python function noted that begins meanwhile, in all "
        "threads; the smallest count, without what timers do. Clients of a node, and the node of a client, are other "
        "processes."
    ),
    "groups": (
        "A real Kafka broker (4.3.1, 1 GB heap) and our node (file store) run all the time and are asked in turn; all "
        "members are driven by one process that shares their cores, with a connection a member. They beat when they "
        "are to hear of something, not every three or five seconds, so that servers' work is timed. A classic group's "
        "first member waits 500 ms for others at both. A KIP-848 group (uniform, 2,000 partitions) is done when every "
        "member has its final share and has said so; the broker shares out once a second, and so does our node in "
        "groups of 30 members and more. Of the 2,000 groups each has one member; heartbeats and commits are three of "
        "each member, and they are listed, and described in one request, by our Admin, and by the command. CPU is "
        "counted in hundredths of a second. Memory is resident; the JVM's holds its heap, most of it before any group. "
        "Our node serves from one thread: beside other work, seconds say less than its CPU."
    ),
    "serve": "The same clients reading the same records from our snode (file store) and from a real Kafka broker.",
    "rocketmq": (
        "A real RocketMQ broker (5.4) over loopback: topics of four queues, clients warmed up in the process that is "
        "measured. The broker gives as many messages an answer as it is asked for (up to 1024), to everyone; what it "
        "gives by itself is 32. Ours build Arrow columns value and offset; Java's pull consumer, a thread a queue, "
        "counts messages and builds nothing. Producing lasts until the last acknowledgement; ours put several messages "
        "into a request unless it says one a request, Java's asynchronous send never does."
    ),
    "rocketmq-front": (
        "RocketMQ's Java client (5.4) at our node (file store) and at a real broker, which both run all the time and "
        "are asked in turn; topics of four queues, values of 100 bytes. Sends that are waited for come one by one, "
        "from one thread of a producer or from ten; 2,000 asynchronous ones are in flight; a thread a queue pulls 32 "
        "messages at once. The server's CPU is that of all messages, the warm-up's included; the real one's does not "
        "count its name server."
    ),
    "snode-rocketmq": (
        "RocketMQ's Java client (5.4) at a real broker, through our Snode before it, and through RocketMQ's Proxy "
        "(remoting, cluster mode) before it. All run all the time, and are asked in turn; topics of four queues, "
        "values of 100 bytes. The server's CPU is that of what stands in between, for all messages, the warm-up's "
        "included; direct, the broker's. Large answers are pulled one message at a time over one connection. A "
        "thousand polls of as many groups that nobody knows are held over ten connections, on four queues; one "
        "message a queue ends them all, and each is timed from before the first of these is sent."
    ),
    "spark-rocketmq": (
        "A topic of a real RocketMQ broker (5.4), four queues, 1,024 messages an answer, into Spark's noop sink. No "
        "connector of RocketMQ's runs on Spark 4; the rival is RocketMQ's own pull consumer at its best, which reads "
        "the same topic in a process of its own, without Spark, and builds nothing."
    ),
    "tubemq": (
        "A real TubeMQ broker over loopback: topics of four stores with a partition each, clients warmed up in the "
        "process that is measured. Ours build Arrow columns value and offset; Java counts messages and builds nothing. "
        "Producing lasts until the last acknowledgement; a TubeMQ send carries one message.\n\n"
        "The broker works a connection off in one thread. Ours have two connections by default, Java's has one; where "
        "there is no row of one connection, the tables below were measured with one. A sum, not a measurement: 0.87 M "
        "records/s keep such a thread busy with 1.15 µs a record. On two cores, which broker and client share, "
        "2 / (1.15 + 0.50) = 1.2 M records/s, 1.5 times Java's 0.83, is then the most that a group could reach, and "
        "2 / (1.15 + 0.28) = 1.4 M/s several range readers: twice Java's rate takes a third core."
    ),
}
