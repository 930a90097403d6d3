"""Runs a session of Spark in its own process and keeps its figures: rates, CPU, failures, unequal checksums."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from bench import machine
from bench.children import CaseFailed, lines
from bench.goals import CPU, RATE
from bench.session import Session

__all__ = ["WARM", "keep_rates", "tell"]

WARM = 1
"""Rounds to throw away. Only one, since the checksums before all rounds already run a session's slow first query."""


def keep_rates(
    session: Session, scenario: str, variant: str, module: str, job: Mapping[str, Any], cases: Sequence[str]
) -> None:
    """Run ``python -m module`` with ``job``; its ``count`` is the number of records that each of ``cases`` handles."""
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
    """Handle a line that is not a figure; a case's error counts as a failure."""
    if "error" in line:
        session.failed(scenario, variant, line["case"], CaseFailed(line["error"]))
    else:
        session.say(f"{scenario}, {variant}: {dict(line)}, load {machine.load()}")
