"""Java's ConsumerPerformance: the official client, which only counts records."""

from __future__ import annotations

import csv
import resource
import subprocess

from bench.topics import Topic
from tools.peers import kafka

__all__ = ["consume"]

TUNED = ("--fetch-size", "4194304", "--socket-buffer-size", "4194304", "--command-property", "max.poll.records=20000")


def consume(bootstrap: str, topic: Topic, *, tuned: bool) -> dict[str, object]:
    """Run the tool on the whole topic. The rate is the printed one of its fetch phase; CPU is the whole JVM's."""
    arguments = ["--bootstrap-server", bootstrap, "--topic", topic.name, "--num-records", str(topic.count)]
    arguments += ["--timeout", "30000", *(TUNED if tuned else ())]
    line = kafka.tool_command("consumer-perf", arguments, heap="1g", quick=False)
    before = _cpu_of_children()
    run = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    if run.returncode:
        raise RuntimeError(f"ConsumerPerformance failed: {run.stdout[-500:]}{run.stderr[-500:]}")
    return {**_printed(run.stdout, topic), "cpu_s": _cpu_of_children() - before}


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _printed(output: str, topic: Topic) -> dict[str, object]:
    """Read the two lines of comma-separated figures."""
    lines = [line for line in output.splitlines() if ", " in line]
    (figures,) = csv.DictReader(lines[-2:], skipinitialspace=True)
    records = int(figures["data.consumed.in.nMsg"])
    if records < topic.count:
        raise RuntimeError(f"ConsumerPerformance read {records} of {topic.count} records")
    fetching = int(figures["fetch.time.ms"]) / 1000
    # The tool computes no checksums, so only the count can be compared.
    return {"records": records, "seconds": fetching, "start_s": int(figures["rebalance.time.ms"]) / 1000}
