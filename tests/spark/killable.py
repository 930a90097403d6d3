"""Servers that die under a query and come back: our node, or a broker of Apache Kafka.

What must not live here: who kills them, and when.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Lock, Thread
from typing import Protocol

import psutil
import pytest

from penstock.testing import NodeProcess
from tests.spark.wires import NODE
from tools.peers import kafka
from tools.peers.maven import Unavailable

QUICK_TO_FORGET = {"log.flush.start.offset.checkpoint.interval.ms": "10"}
"""Kafka writes every minute where its logs start. Killed before, it has the deleted records again."""


class Killable(Protocol):
    """A server that a query reads from; after a kill it is started on the same port with the same data."""

    @property
    def address(self) -> str: ...
    @property
    def pid(self) -> int: ...
    def start(self) -> None: ...
    def kill(self) -> None: ...


@contextmanager
def server(kind: str, folder: Path) -> Iterator[Killable]:
    if kind == "ours":
        with NodeProcess(folder) as node:
            yield node
        return
    try:
        broker = kafka.broker_process(folder, settings=QUICK_TO_FORGET)
    except Unavailable as reason:
        pytest.skip(f"no Kafka to test with: {reason}")
    with broker:
        yield broker


@contextmanager
def restarted(node: Killable, wires: Path) -> Iterator[list[int]]:
    """Start the node again whenever it is killed, until the block ends. Yields the process ids of those killed."""
    over = False
    killed: list[int] = []
    starting = Lock()  # or the last one would be started after it was ended

    def watch() -> None:
        while True:
            with starting:
                if over:
                    return
                process = psutil.Process(node.pid)
                (wires / NODE).write_text(str(node.pid))
            psutil.wait_procs([process])
            with starting:
                if over:
                    return
                killed.append(node.pid)
                node.kill()  # which notes that it is gone
                node.start()

    watcher = Thread(target=watch)
    watcher.start()
    try:
        yield killed
    finally:
        with starting:
            over = True
            node.kill()
        watcher.join()
