"""``./dev bench [SCENARIO…] [--quick] [--runs N] [--write]``: measure, print tables and verdicts, keep the samples.

A full run's samples go to bench/results, one file per scenario, from which ``--write`` makes RESULTS.md. Samples of a
quick run, which only tests the harness, and of selected variants or parts go to the temporary folder.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT), str(ROOT / "src")]  # this file is run by its path, not as a module

from confluent_kafka import KafkaException  # noqa: E402

from bench import machine, report, results, servers  # noqa: E402
from bench.children import CaseFailed  # noqa: E402
from bench.scenarios import SCENARIOS  # noqa: E402
from bench.session import Session  # noqa: E402
from bench.topics import VARIANTS  # noqa: E402
from tools.peers.maven import Unavailable  # noqa: E402

PAGE = Path(__file__).resolve().parent / "RESULTS.md"


def main(words: Sequence[str]) -> int:
    """Exit code 0 if every case gave figures, else 1."""
    options = _arguments().parse_args(words)
    for told in (signal.SIGINT, signal.SIGTERM):  # also if a background shell ignores it
        signal.signal(told, _end)
    if unknown := [name for name in options.scenario if name not in SCENARIOS]:
        print(f"bench knows {', '.join(SCENARIOS)}, not {', '.join(unknown)}", file=sys.stderr)
        return 2
    wanted = options.scenario or ([] if options.write else list(SCENARIOS))
    if fault := _fault_of_parts(options.part or (), wanted):
        print(fault, file=sys.stderr)
        return 2
    with servers.alone():
        return _run(options, wanted)


def _fault_of_parts(parts: Sequence[str], wanted: Sequence[str]) -> str:
    """The error in ``--part``, "" if there is none: each wanted scenario must have all selected parts."""
    for name in wanted if parts else ():
        known = SCENARIOS[name].parts
        if unknown := [part for part in parts if part not in known]:
            return f"{name} has {'the parts ' + ', '.join(known) if known else 'no parts'}, not {', '.join(unknown)}"
    return ""


def _end(number: int, _: object) -> NoReturn:
    """End with SystemExit, so that the servers are closed."""
    sys.exit(128 + number)


def _run(options: argparse.Namespace, wanted: Sequence[str]) -> int:
    facts = {**machine.facts(), "load at the start": str(machine.load())}
    session = Session(
        quick=options.quick,
        runs=options.runs or (1 if options.quick else 5),
        warm=1,
        variants=tuple(options.variant or ()),
        parts=tuple(options.part or ()),
    )
    try:
        for name in wanted:
            _measure(session, name)
            _keep(session, name, facts)
    finally:
        session.close()
    if options.write:
        _write_page()
    for failure in session.failures:
        print(f"FAILED {failure}", file=sys.stderr)
    return 1 if session.failures else 0


def _measure(session: Session, name: str) -> None:
    """Run a scenario; a server that is not available, or dies, ends only this scenario."""
    try:
        SCENARIOS[name].run(session)
    except (Unavailable, RuntimeError, OSError, KafkaException) as error:
        session.failed(name, "all", "scenario", CaseFailed(f"{type(error).__name__}: {error}"))


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="./dev bench", description=__doc__)
    parser.add_argument("scenario", nargs="*", help=f"of {', '.join(SCENARIOS)}; all if none is named")
    parser.add_argument("--quick", action="store_true", help="few records and one round: does the harness work?")
    parser.add_argument("--runs", type=int, help="measured rounds (5)")
    parser.add_argument("--variant", action="append", choices=VARIANTS, help="topic to work on, may be repeated")
    parser.add_argument("--part", action="append", help=f"part of a scenario, may be repeated; {_parts()}")
    parser.add_argument("--write", action="store_true", help="write RESULTS.md from the kept samples")
    return parser


def _parts() -> str:
    return "; ".join(f"{name} has {', '.join(each.parts)}" for name, each in SCENARIOS.items() if each.parts)


def _keep(session: Session, name: str, facts: dict[str, str]) -> None:
    """Print a scenario's tables, and keep its samples."""
    samples = [sample for sample in session.samples if sample.scenario == name]
    if not samples:
        return
    for title, rows in report.tables(samples, SCENARIOS[name].rivals):
        print(f"\n{title}\n{report.text(rows)}", flush=True)
    judged = [row for row in report.verdict_rows(samples) if row[-1] != "not measured"]
    print(f"\n{report.text(judged)}" if len(judged) > 1 else "", flush=True)
    folder = servers.kept() / "results" if session.quick or session.variants or session.parts else results.FOLDER
    results.write(folder / f"{name}.jsonl", {**facts, "load at the end": str(machine.load())}, samples)


def _write_page() -> None:
    files = [results.FOLDER / f"{name}.jsonl" for name in SCENARIOS]
    runs = [results.read(file) for file in files if file.exists()]
    rivals = {name: scenario.rivals for name, scenario in SCENARIOS.items()}
    PAGE.write_text(report.page(runs, rivals), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
