"""Compares the CPU of two trees' nodes for each request: ``python -m bench.paired OTHER_TREE [--cases …]``.

Both nodes run at the same time, each from its own source tree, and are asked in short windows in turn (ABBA). What else
the machine does meets both alike, so that a difference of a few per cent can be seen where two runs of the bench, one
after the other, differ by far more. A ratio is this tree's CPU ÷ the other tree's.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from bench.clients import small_messages, small_raw
from bench.loading import create
from bench.servers import READY, ROOT
from tools.peers import jvm

__all__ = ["compare", "main"]

JOINS: Final = "joins of new groups"
CASES: Final = (*small_messages.KAFKA, small_raw.HEARTBEAT, JOINS)
_TOPIC: Final = "paired"
_WINDOW_S: Final = 0.1
_SAMPLES: Final = 2_000
"""Resamplings for the interval of a median."""

Window = Callable[[], float]
"""Sends requests for a while; returns the node's CPU in µs for each."""


def compare(ours: Window, theirs: Window, rounds: int) -> list[tuple[float, float]]:
    """µs of CPU a request of both, in rounds of ABBA after one that is not counted."""
    found = []
    for number in range(rounds + 1):
        first = ours(), theirs()
        second = theirs(), ours()
        if number:
            found.append(((first[0] + second[1]) / 2, (first[1] + second[0]) / 2))
    return found


def _cpu_us(pid: int) -> float:
    """CPU of all threads of a process so far, as the scheduler counts it in ns."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        with contextlib.suppress(OSError):
            total += int((task / "schedstat").read_text().split()[0])
    return total / 1_000


def _window(pid: int, turn: Callable[[], int]) -> Window:
    def run() -> float:
        until = time.perf_counter() + _WINDOW_S
        before, count = _cpu_us(pid), 0
        while time.perf_counter() < until:
            count += turn()
        return (_cpu_us(pid) - before) / count

    return run


def _case(case: str, port: int, pid: int, connections: int) -> Window:
    create(f"127.0.0.1:{port}", _TOPIC, 1)
    job = small_raw.RawJob("127.0.0.1", port, _TOPIC, connections, 0, pid)
    sockets = [small_raw.connected(job) for _ in range(connections)]
    if case == JOINS:
        return _window(pid, lambda: _join(sockets[0]))
    small_raw.settled(sockets[0], small_messages.KAFKA["produce"](_TOPIC))
    prepare, answered = small_raw.CASES[case]
    data = prepare(sockets[0], _TOPIC).data

    def turn() -> int:
        small_raw.one_each(sockets, data, answered)
        return connections

    return _window(pid, turn)


def _join(connection: socket.socket) -> int:
    group = f"{_TOPIC}-{random.getrandbits(64):x}"
    small_raw.settled(connection, small_messages.KAFKA["FindCoordinator"](group))
    joined = small_messages.read_joined(small_raw.settled(connection, small_messages.join(group)))
    small_raw.settled(connection, small_messages.sync(group, *joined))
    return 1


@contextlib.contextmanager
def _node(tree: Path, store: Path) -> Iterator[tuple[int, int]]:
    """A node from a source tree: its port and pid."""
    line = [
        sys.executable,
        "-m",
        "penstock.cli",
        "snode",
        "--store",
        f"file:{store}",
        "--listen",
        "kafka://127.0.0.1:0",
    ]
    environment = {**os.environ, "PYTHONPATH": str(tree / "src")}
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=environment, cwd=tree)
    try:
        assert process.stdout is not None
        said = next(filter(None, map(READY.search, map(bytes.decode, process.stdout))), None)
        if said is None:
            raise RuntimeError(f"the node of {tree} ended before it was ready")
        yield int(said[2]), process.pid
    finally:
        jvm.end(process)


def _interval(ratios: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median, by resampling."""
    source = random.Random(1)
    medians = sorted(statistics.median(source.choices(ratios, k=len(ratios))) for _ in range(_SAMPLES))
    return medians[_SAMPLES // 40], medians[-_SAMPLES // 40]


def main(words: Sequence[str]) -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("other", type=Path, help="the root of the other source tree")
    parser.add_argument("--cases", nargs="+", choices=CASES, default=CASES)
    parser.add_argument("--connections", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args(words)
    with tempfile.TemporaryDirectory() as folder:
        for case in given.cases:
            with (
                _node(ROOT, Path(folder) / f"{case}-ours") as (port, pid),
                _node(given.other, Path(folder) / f"{case}-theirs") as (their_port, their_pid),
            ):
                ours = _case(case, port, pid, given.connections)
                theirs = _case(case, their_port, their_pid, given.connections)
                pairs = compare(ours, theirs, given.rounds)
            ratios = [mine / other for mine, other in pairs]
            low, high = _interval(ratios)
            mine_us, other_us = (statistics.median(column) for column in zip(*pairs, strict=True))
            ratio = f"{statistics.median(ratios):.3f} ({low:.3f}-{high:.3f})"
            print(f"{case:22} {mine_us:8.1f} µs ÷ {other_us:8.1f} µs = {ratio}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
