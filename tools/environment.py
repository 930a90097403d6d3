"""Virtual environments, and the pinned one of ./dev: it is created if missing, and updated if pins change.

Pins are in requirements/, one file per purpose. No package is in two files, and all files together constrain every
install, so that no version depends on the day. A stamp next to the environment records what was installed; an
environment that was created by hand is used if it meets all pins.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import subprocess
import sys
import tomllib
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tools.console import Stop, say, timed

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
PINS = ROOT / "requirements"

TO_RUN = ("build", "run", "extras", "spark", "demo")
EVERYTHING = (*TO_RUN, "test", "sdk", "rivals", "check", "docs")
FOR_INTEROP = (*EVERYTHING, "interop")

INSTALLED = """
import importlib.metadata, json, re
found = importlib.metadata.distributions()
print(json.dumps({re.sub("[-_.]+", "-", each.metadata["Name"]).lower(): each.version for each in found}))
"""


@dataclass(frozen=True)
class Environment:
    """A virtual environment in a folder of the project."""

    folder: Path

    @property
    def python(self) -> Path:
        return self.folder / "bin" / "python"

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """A lock: if two ./dev run at the same time, the second waits for the first one's install."""
        import fcntl

        self.folder.mkdir(exist_ok=True)
        with (self.folder / ".lock").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say("another ./dev is installing; waiting for it")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def create_if_missing(self) -> None:
        # A symlink to an uninstalled Python, or an incomplete environment, does not count.
        if self.python.exists() and any((self.folder / "lib").glob("python*/site-packages/pip")):
            return
        try:
            import ensurepip  # noqa: F401 - a separate package in Debian; without it venv fails late and unclearly
            import venv
        except ImportError:
            raise Stop("this Python has no venv module (on Debian and Ubuntu: apt install python3-venv)") from None
        version = ".".join(map(str, sys.version_info[:3]))
        with timed(f"making {self.folder.name} with Python {version}"):
            venv.EnvBuilder(with_pip=True, symlinks=True, upgrade_deps=False).create(self.folder)

    def pip(self, *arguments: str) -> None:
        """pip install. Large downloads are printed as they start, all other output is in pip.log; if pip fails, its end
        is printed."""
        command = [str(self.python), "-m", "pip", "--no-input", "--disable-pip-version-check", "install"]
        environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONPATH", "PYTHONHOME"}}
        last: deque[str] = deque(maxlen=25)
        with (
            (self.folder / "pip.log").open("a", encoding="utf-8") as log,
            subprocess.Popen(
                [*command, "--progress-bar=off", *arguments],
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                env=environment,
            ) as pip,
        ):
            assert pip.stdout is not None
            for line in pip.stdout:
                log.write(line)
                last.append(line)
                if big := re.match(r"\s*Downloading (\S+?)-\d\S* \((\d{2,}\.?\d* MB)\)", line):
                    say(f"  fetching {big[1].rpartition('/')[2]}, {big[2]}")
        if pip.returncode:
            raise Stop("pip could not install what is asked for; it said:\n" + "".join(last))


PINNED = Environment(VENV)


def prepare(groups: Sequence[str]) -> None:
    """Make the environment meet the pins of these groups, with the project installed in it."""
    with PINNED.alone():
        PINNED.create_if_missing()
        stamp = _read_stamp()
        wanted = {group: _digest(group) for group in groups}
        if any(stamp.get(group) != digest for group, digest in wanted.items()):
            _install(groups)
            _write_stamp(stamp | wanted)
            stamp = _read_stamp()
        if stamp.get("project") != (project := _project_digest()):
            _install_project()
            _write_stamp(stamp | {"project": project})


def pins(group: str) -> dict[str, str]:
    """Name -> version of one file in requirements/, names in their canonical form."""
    lines = (PINS / f"{group}.txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("==") for line in lines if line and not line.startswith("#"))
    return {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in pairs}


def _digest(group: str) -> str:
    return hashlib.sha256(json.dumps(sorted(pins(group).items())).encode()).hexdigest()[:16]


def _project_digest() -> str:
    """Everything that an editable install depends on: metadata, build tables, and the path of the checkout."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    facts = [table["project"], table["build-system"], table["tool"]["setuptools"], str(ROOT)]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]


def _stamp_file() -> Path:
    return VENV / "penstock-dev.json"


def _read_stamp() -> dict[str, str]:
    try:
        stamp: dict[str, str] = json.loads(_stamp_file().read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return stamp


def _write_stamp(stamp: dict[str, str]) -> None:
    _stamp_file().write_text(json.dumps(stamp, indent=1, sort_keys=True) + "\n", encoding="utf-8")


def _install(groups: Sequence[str]) -> None:
    installed = json.loads(subprocess.run([PYTHON, "-c", INSTALLED], capture_output=True, check=True, text=True).stdout)
    missing = [name for group in groups for name, version in pins(group).items() if installed.get(name) != version]
    if not missing:
        return
    arguments = [part for group in groups for part in ("-r", str(PINS / f"{group}.txt"))]
    for file in sorted(PINS.glob("*.txt")):
        arguments += ["-c", str(file)]
    with timed(f"installing {len(missing)} pinned packages ({', '.join(groups)})"):
        PINNED.pip(*arguments)


def _install_project() -> None:
    # The build backend is pinned and already installed, so nothing is downloaded for this step.
    with timed("installing penstock itself (editable)"):
        PINNED.pip("--no-deps", "--no-build-isolation", "-e", str(ROOT))
