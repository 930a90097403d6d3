"""Runs a session of Spark in a process of its own and keeps what it tells: rates, CPU, failures, unequal checksums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import machine
from bench.children import CaseFailed, lines
from bench.goals import CPU, RATE
from bench.session import Session

__all__ = ["WARM", "keep_rates", "tell"]

WARM = 1
"""Rounds to throw away. A session's first query takes seconds longer; but checksums come before all rounds."""


def keep_rates(
    session: Session, scenario: str, variant: str, module: str, job: Mapping[str, Any], cases: Sequence[str]
) -> None:
    """Run ``python -m module`` with ``job``, whose ``count`` is how many records each of its ``cases`` handles."""
    count = job["count"]
    sums: dict[str, dict[str, str]] = {}
    try:
        for line in lines(module, {**job, "cases": cases, "warm": WARM, "runs": session.runs}):
            case = line.get("case", "")
            if "sums" in line:
                sums.setdefault(line["evidence"], {})[case] = line["sums"]
            elif "round" in line:
                rate = count / line["seconds"] / 1e6
                session.add(scenario, variant, RATE, case, line["round"], rate, seconds=line["seconds"])
                session.add(scenario, variant, CPU, case, line["round"], line["cpu_s"] / count * 1e6)
            else:
                tell(session, scenario, variant, line)
    except CaseFailed as error:
        session.failed(scenario, variant, "session", error)
    for found in sums.values():
        if len(set(found.values())) > 1:
            session.failed(scenario, variant, "checksums", CaseFailed(f"they differ: {found}"))


def tell(session: Session, scenario: str, variant: str, line: Mapping[str, Any]) -> None:
    """Say what is no figure; a case's error is a failure."""
    if "error" in line:
        session.failed(scenario, variant, line["case"], CaseFailed(line["error"]))
    else:
        session.say(f"{scenario}, {variant}: {dict(line)}, load {machine.load()}")
