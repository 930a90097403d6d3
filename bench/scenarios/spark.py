"""A topic of a real Kafka broker into Spark's noop sink: format("penstock") against Spark's own Kafka connector."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bench import machine
from bench.children import CaseFailed
from bench.goals import CPU, RATE
from bench.servers import ROOT, environment
from bench.session import Session
from bench.topics import Topic, topic

__all__ = ["RIVALS", "run"]

CASES: Mapping[str, Sequence[str]] = {
    "100 B": (
        "connector",
        "connector tuned",
        "penstock",
        "connector tuned value",
        "penstock value",
        "connector stream",
        "connector tuned stream",
        "penstock stream",
    ),
    "100 B lz4": ("connector", "connector tuned", "penstock"),
    "1 KB": ("connector", "connector tuned", "penstock"),
}
RIVALS: Mapping[str, Sequence[str]] = {
    "penstock": ("connector", "connector tuned"),
    "penstock value": ("connector tuned value",),
    "penstock stream": ("connector stream", "connector tuned stream"),
}
# The first query of a session takes seconds longer; so does the second.
WARM = 2


def run(session: Session) -> None:
    """One session of Spark a variant."""
    for variant in session.chosen(tuple(CASES)):
        _measure(session, variant, topic(variant, quick=session.quick))


def _measure(session: Session, variant: str, wanted: Topic) -> None:
    bootstrap = session.kafka(wanted).bootstrap
    warm = 1 if session.quick else WARM
    job = {"bootstrap": bootstrap, "topic": wanted.name, "cases": CASES[variant], "warm": warm, "runs": session.runs}
    sums: dict[str, str] = {}
    for line in _lines(session, variant, job):
        case = line.get("case", "")
        if "error" in line:
            session.failed("spark", variant, case, CaseFailed(line["error"]))
        elif "sums" in line:
            sums[case] = line["sums"]
        elif "round" in line:
            rate = wanted.count / line["seconds"] / 1e6
            session.add("spark", variant, RATE, case, line["round"], rate, seconds=line["seconds"])
            session.add("spark", variant, CPU, case, line["round"], line["cpu_s"] / wanted.count * 1e6)
        else:
            session.say(f"spark, {variant}: {line}, load {machine.load()}")
    for narrow in (False, True):
        found = {case: text for case, text in sums.items() if ("value" in case.split()) is narrow}
        if len(set(found.values())) > 1:
            session.failed("spark", variant, "checksums", CaseFailed(f"they differ: {found}"))


def _lines(session: Session, variant: str, job: Mapping[str, object]) -> Iterator[dict[str, Any]]:
    """What the session prints, as it comes."""
    line = [sys.executable, "-m", "bench.spark_case", json.dumps(job)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as process:
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("@"):
                yield json.loads(text[1:])
    if process.returncode:
        session.failed("spark", variant, "session", CaseFailed(f"it ended with {process.returncode}"))
