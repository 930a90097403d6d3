"""RocketMQ's clients in Go, C++ and Rust: a program with each sends messages with tags, and consumes some of them.

All take NAMES TOPIC GROUP TAGS. They send six messages with tags A, B, C, A, B, C, wait until a consumer has those with
TAGS, and wait one second more. They print a line for each received message: its tag, and its body, which is "of " and
the tag.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path

from tools.peers import maven
from tools.peers.maven import Unavailable

CPP_VERSION = "0.4.4"  # of the Python package; the library says 1.0.1
HERE = Path(__file__).resolve().parent

Program = tuple[list[str], Mapping[str, str]]
"""Its command line without arguments, and the variables of its environment."""


def go(home: Path) -> Program:
    """The program with rocketmq-client-go, built in ``home``. Raises maven.Unavailable."""
    line = ["go", "build", "-mod=readonly", "-o", str(home / "client"), "."]
    _build(HERE / "go" / "rocketmq", ["go", "mod", "download"], line, {"GOTOOLCHAIN": "local"})
    return [str(home / "client")], {}


def rust(_home: Path) -> Program:
    """The program with rocketmq-client-rust, built in the user's cache; minutes the first time. Raises Unavailable."""
    built = maven.caches()[0] / "rocketmq-rust"
    source = built / "source"  # cargo writes a file there
    shutil.copytree(HERE / "rust" / "rocketmq", source, dirs_exist_ok=True)
    line = ["cargo", "build", "--offline", "--quiet", "--target-dir", str(built)]
    _build(source, ["cargo", "fetch", "--quiet"], line, {})
    return [str(built / "debug" / "client")], {}


def cpp(_home: Path) -> Program:
    """The program with the C++ library inside the Python package ``rocketmq``. Raises maven.Unavailable."""
    return [sys.executable, str(HERE / "cpp" / "rocketmq_tags.py")], {"PYTHONPATH": str(_package())}


PROGRAMS: Mapping[str, Callable[[Path], Program]] = {"Go": go, "C++": cpp, "Rust": rust}
"""Functions that build each program; temporary files for the tests go into the given folder."""


def _build(source: Path, fetch: list[str], build: list[str], settings: Mapping[str, str]) -> None:
    if shutil.which(fetch[0]) is None:
        raise Unavailable(f"no {fetch[0]} on the PATH to build {source}")
    environment = {**os.environ, **settings}
    run = subprocess.run(fetch, cwd=source, env=environment, capture_output=True, text=True, check=False)
    if run.returncode:
        raise Unavailable(f"{' '.join(fetch)} in {source}: {run.stderr[-400:]}")
    subprocess.run(build, cwd=source, env=environment, check=True)


def _package() -> Path:
    """The folder from which the package is imported, installed once by pip with the machine's settings."""
    home = maven.caches()[0]
    done = home / f"rocketmq-cpp-{CPP_VERSION}"
    if not done.exists():
        home.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix=".rocketmq-cpp-", dir=home) as fresh:
            line = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary=:all:"]
            line += ["--target", f"{fresh}/found", f"rocketmq=={CPP_VERSION}"]
            run = subprocess.run(line, capture_output=True, text=True, check=False)
            if run.returncode:
                raise Unavailable(f"pip cannot install rocketmq {CPP_VERSION}: {run.stderr[-400:]}")
            try:
                Path(fresh, "found").rename(done)
            except OSError:  # another run was faster
                if not done.exists():
                    raise
    return done
