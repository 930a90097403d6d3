"""Clients that handle one record at a time, ours and others', with one server: sends, reads, commits, round trips."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from bench.children import CaseFailed, begun, child, last_words
from bench.clients import small_commits, small_java, small_writing
from bench.clients.small_reading import CASES as READERS
from bench.clients.small_round_trips import CASES as ASKERS
from bench.clients.small_round_trips import PARTITIONS
from bench.goals import CPU_EACH, LATENCY_MS, SERVER_CPU, SINGLE_RATE
from bench.loading import delete, fill, fresh
from bench.rounds import rounds
from bench.servers import Server
from bench.session import Session

__all__ = ["commits", "latencies", "punctual", "reads", "round_trips", "sends", "too_late"]

JAVA = "Java"
PREFIX = "bench-small"
VALUE_BYTES = 100
SENDS = 3_000
FLYING_TIMES = 5
"""Factor for the number of records with a hundred in flight."""

RATES = {100: 200, 500: 2_000, 1_000: 2_000, 10_000: 20_000}
"""Records of a case, by records per second."""

OFTEN = 500
"""The rate that is measured in all rounds; others in at most `FEWER` rounds."""

FEWER = 3
SETTLE_S = 0.5
"""Time until a ready reader waits at its server."""

COMMITS = 1_000
ROUND_TRIPS = 2_000
QUICK_SHARE = 5
TRIES = 3
"""Attempts of a measurement whose writer is late."""

Found = TypeVar("Found")


def sends(session: Session, server: Server) -> None:
    """Measure sends that are awaited one by one, and with a hundred in flight."""
    for what, words in small_writing.CASES.items():
        cases = dict(zip(words[::2], words[1::2], strict=True))
        _sends(session, server, what, cases, _share(session, SENDS * (FLYING_TIMES if "flight" in what else 1)))


def _share(session: Session, count: int) -> int:
    return count // (QUICK_SHARE if session.quick else 1)


def _sends(session: Session, server: Server, what: str, cases: Mapping[str, str], count: int) -> None:
    variant = f"{what}, {server.name}"
    for number, case in rounds(tuple(cases), warm=session.warm, runs=session.runs):
        if ("small", variant, case) in session.broken:
            continue
        topic = fresh(server.bootstrap, PREFIX)
        warm = _share(session, small_java.WARM) if case == JAVA else small_writing.WARM
        job = {"part": "send", "case": cases[case], "count": count, "warm": warm, "value_bytes": VALUE_BYTES}
        _spent(session, server, variant, case, number, {**job, "topic": topic})


def commits(session: Session, server: Server) -> None:
    """Measure a commit for each record."""
    variant = f"commit per record, {server.name}"
    count = _share(session, COMMITS)
    for number, case in rounds(tuple(small_commits.CASES), warm=0, runs=session.runs):
        if ("small", variant, case) in session.broken:
            continue
        topic = fresh(server.bootstrap, PREFIX)
        warm = _share(session, small_java.WARM_COMMITS) if case == JAVA else small_commits.WARM
        fill(server.bootstrap, topic, 1, count + warm)
        job = {"part": "commit", "case": small_commits.CASES[case], "count": count, "warm": warm}
        _spent(session, server, variant, case, number, {**job, "topic": topic})


def _spent(session: Session, server: Server, variant: str, case: str, number: int, job: Mapping[str, object]) -> None:
    """Run a case, and delete its topic. The server's CPU is for all records, including those of the warm-up."""
    before = server.cpu_s()
    try:
        result = child("bench.small_case", {**job, "bootstrap": server.bootstrap})
    except CaseFailed as error:
        session.failed("small", variant, case, error)
        return
    finally:
        spent = server.cpu_s() - before
        delete(server.bootstrap, str(job["topic"]))
    count, warm = int(str(job["count"])), int(str(job["warm"]))
    seconds, cpu = float(str(result["seconds"])), float(str(result["cpu_s"]))
    session.add("small", variant, SINGLE_RATE, case, number, count / seconds)
    session.add("small", variant, CPU_EACH, case, number, cpu / count * 1e6)
    session.add("small", variant, SERVER_CPU, case, number, spent / (count + warm) * 1e6)


def reads(session: Session, server: Server) -> None:
    """Measure the latency of records that arrive at a constant rate."""
    for rate, count in RATES.items():
        variant = f"read {rate:,} a second, {server.name}"
        runs = session.runs if rate == OFTEN else min(FEWER, session.runs)
        for number, case in rounds(tuple(READERS), warm=0, runs=runs):
            if ("small", variant, case) not in session.broken:
                _read(session, server, variant, case, number, rate, _share(session, count))


def _read(session: Session, server: Server, variant: str, case: str, number: int, rate: int, count: int) -> None:
    warm = _share(session, small_java.WARM_READS) if case == JAVA else 0
    try:
        found = punctual(session, lambda: _trickle(server, READERS[case], rate, count, warm))
    except CaseFailed as error:
        session.failed("small", variant, case, error)
        return
    latencies(session, variant, case, number, found)


def latencies(session: Session, variant: str, case: str, number: int, found: Mapping[str, object]) -> None:
    """Keep a reader's latencies."""
    for quantile in ("p50", "p99", "p999"):
        session.add("small", f"{variant}, {quantile}", LATENCY_MS, case, number, float(str(found[quantile])))
    session.add("small", variant, CPU_EACH, case, number, float(str(found["cpu_us"])))


def _trickle(server: Server, reader: str, rate: int, count: int, warm: int) -> Mapping[str, object]:
    topic = fresh(server.bootstrap, PREFIX)
    job = {"bootstrap": server.bootstrap, "topic": topic, "count": count, "warm": warm}
    try:
        with begun("bench.small_case", {**job, "part": "read", "case": reader}) as process:
            time.sleep(SETTLE_S)
            paced = child("bench.small_case", {**job, "part": "pace", "rate": rate, "value_bytes": VALUE_BYTES})
            found = last_words(process)
    finally:
        delete(server.bootstrap, topic)
    too_late(paced, rate, count)
    return found


class TooLate(CaseFailed):
    """A writer did not keep its rate, which is not the reader's fault."""


def too_late(paced: Mapping[str, object], rate: int, count: int) -> None:
    """Raise TooLate if a writer did not keep its rate."""
    if int(str(paced["late"])) > count // 100:
        raise TooLate(f"the writer was late {paced['late']} times: the machine is too busy for {rate} a second")


def punctual(session: Session, measure: Callable[[], Found]) -> Found:
    """The result of ``measure``, which is repeated up to `TRIES` times if its writer was late. Raises CaseFailed."""
    for _ in range(TRIES - 1):
        try:
            return measure()
        except TooLate as error:
            session.say(f"once more: {error}")
    return measure()


def round_trips(session: Session, server: Server) -> None:
    """Measure the time from a question to its answer."""
    variant = f"question and answer, {server.name}"
    count = _share(session, ROUND_TRIPS)
    for number, case in rounds(tuple(ASKERS), warm=0, runs=session.runs):
        if ("small", variant, case) in session.broken:
            continue
        topic = fresh(server.bootstrap, PREFIX, PARTITIONS)
        job = {"bootstrap": server.bootstrap, "topic": topic, "count": count}
        try:
            with begun("bench.small_case", {**job, "part": "answer"}) as answering:
                found = child("bench.small_case", {**job, "part": "ask", "case": ASKERS[case]})
                answering.communicate()
        except CaseFailed as error:
            session.failed("small", variant, case, error)
            continue
        finally:
            delete(server.bootstrap, topic)
        latencies(session, variant, case, number, found)
