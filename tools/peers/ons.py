"""npm's ali-ons: a RocketMQ client in JavaScript that shares no code with Java's; for any name server, also ours.

Its driver, js/ons.js, prints the same lines as RocketMQ's Java drivers. It sends one message per line, synchronously.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.peers import maven
from tools.peers.java_driver import Driver
from tools.peers.maven import Unavailable
from tools.peers.rocketmq_clients import Producer

VERSION = "3.12.0"
PACKAGES = (f"ali-ons@{VERSION}", "urllib@2.44.0")
SCRIPT = Path(__file__).resolve().parent / "js" / "ons.js"


def modules() -> Path:
    """The folder of its packages, installed once by npm with the machine's settings. Raises maven.Unavailable."""
    home = maven.caches()[0]
    done = home / f"ali-ons-{VERSION}"
    if not done.exists():
        home.mkdir(parents=True, exist_ok=True)
        fresh = Path(tempfile.mkdtemp(prefix=".ali-ons-", dir=home))
        try:
            _install(fresh)
            fresh.rename(done)
        except OSError:  # another run was faster
            if not done.exists():
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return done / "node_modules"


@contextmanager
def producer(names: str, group: str = "ons-senders") -> Iterator[Producer]:
    """Its producer; it takes ``Mail`` with one body each, with tags, keys and properties."""
    driver = Producer(_line("send", {"names": names, "group": group}), _environment())
    try:
        yield driver
    finally:
        driver.stop()


@contextmanager
def push(names: str, group: str, topic: str, tags: str = "*") -> Iterator[Driver]:
    """Its push consumer, from the first message on."""
    driver = Driver(_line("push", {"names": names, "group": group, "topic": topic, "tags": tags}), _environment())
    try:
        yield driver
    finally:
        driver.stop()


def _install(folder: Path) -> None:
    npm = shutil.which("npm")
    if npm is None:
        raise Unavailable("no npm on the PATH to fetch ali-ons")
    line = [
        npm,
        "install",
        "--no-audit",
        "--no-fund",
        "--silent",
        "--ignore-scripts",
        "--prefix",
        str(folder),
        *PACKAGES,
    ]
    run = subprocess.run(line, capture_output=True, text=True, check=False)
    if run.returncode:
        raise Unavailable(f"npm could not fetch ali-ons: {run.stderr[-300:]}")


def _line(verb: str, options: Mapping[str, str]) -> list[str]:
    node = shutil.which("node")
    if node is None:
        raise Unavailable("no node on the PATH to run ali-ons")
    words = [word for key, value in options.items() for word in (f"--{key}", value)]
    return [node, str(SCRIPT), verb, *words]


def _environment() -> dict[str, str]:
    return {**os.environ, "NODE_PATH": str(modules())}
