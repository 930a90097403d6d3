"""Lines in and out on the command line, ours against kcat: a file to a topic and back, with start and end of processes.

kcat is a package of Debian and other distributions; without it, only ours is measured, with a message.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from bench.children import CaseFailed
from bench.goals import CPU_EACH, RATE
from bench.loading import create, delete, ends
from bench.rounds import rounds
from bench.servers import ROOT, environment, kept, snode
from bench.session import Session

__all__ = ["RIVALS", "run"]

PRODUCE, TEXT, JSON = "produce lines of 100 B", "consume to text", "consume to JSON"
RIVALS: Mapping[str, Sequence[str]] = {"penstock": ("kcat",)}
COUNT = 5_000_000
LINE_BYTES = 100
_TOPIC = "bench-cli"


def run(session: Session) -> None:
    """Measure both directions, to and from our node in memory."""
    cases = ["penstock", "kcat"] if shutil.which("kcat") else ["penstock"]
    if "kcat" not in cases:
        session.say("kcat is not installed (Debian, Ubuntu: apt install kcat): only ours is measured")
    count = COUNT // (25 if session.quick else 1)
    with snode("memory:") as node:
        for what in (PRODUCE, TEXT, JSON):
            for number, case in rounds(cases, warm=session.warm, runs=session.runs):
                if ("cli", what, case) not in session.broken:
                    _measure(session, what, case, number, node.bootstrap, count)


def _measure(session: Session, what: str, case: str, number: int, bootstrap: str, count: int) -> None:
    out = kept() / "cli-out"
    try:
        if what == PRODUCE:
            if ends(bootstrap, _TOPIC):
                delete(bootstrap, _TOPIC)
            create(bootstrap, _TOPIC, 1)
        seconds, cpu = _timed(_command(what, case, bootstrap, count), out)
        _check(what, bootstrap, out, count)
    except CaseFailed as error:
        session.failed("cli", what, case, error)
        return
    finally:
        out.unlink(missing_ok=True)
    session.add("cli", what, RATE, case, number, count / seconds / 1e6)
    session.add("cli", what, CPU_EACH, case, number, cpu / count * 1e6)


def _command(what: str, case: str, bootstrap: str, count: int) -> list[str]:
    penstock = [sys.executable, "-m", "penstock.cli"]
    kcat = ["kcat", "-b", bootstrap, "-t", _TOPIC]
    address = f"kafka://{bootstrap}/{_TOPIC}"
    if what == PRODUCE:
        lines = str(_lines(count))
        return [*penstock, "produce", address, lines] if case == "penstock" else [*kcat, "-P", "-l", lines]
    as_json = what == JSON
    if case == "penstock":
        return [*penstock, "consume", address, "--until-end", *(("--format", "json") if as_json else ())]
    return [*kcat, "-C", "-o", "beginning", "-e", "-q", *(("-J",) if as_json else ())]


def _lines(count: int) -> Path:
    """A file with so many lines."""
    file = kept() / f"lines-{count}.txt"
    if not file.exists():
        unfinished = file.with_suffix(".unfinished")
        with unfinished.open("w") as stream:
            stream.writelines(f"{number:0{LINE_BYTES}d}\n" for number in range(count))
        unfinished.replace(file)
    return file


def _timed(command: Sequence[str], out: Path) -> tuple[float, float]:
    """Seconds and CPU-seconds of a process that writes to a file. Raises CaseFailed."""
    with out.open("wb") as stream:
        begun = time.perf_counter()
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.PIPE, env=environment(), cwd=ROOT
        )
        assert process.stderr is not None
        with process.stderr:
            said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise CaseFailed(said.decode(errors="replace")[-500:])
    return seconds, used.ru_utime + used.ru_stime


def _check(what: str, bootstrap: str, out: Path, count: int) -> None:
    """Raise CaseFailed unless all lines have arrived."""
    found = sum(ends(bootstrap, _TOPIC)) if what == PRODUCE else _count_lines(out)
    if found != count:
        raise CaseFailed(f"{found} of {count} lines are there")


def _count_lines(file: Path) -> int:
    with file.open("rb") as stream:
        return sum(block.count(b"\n") for block in iter(lambda: stream.read(1 << 20), b""))
