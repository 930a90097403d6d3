"""./dev test --newest, --oldest: tests with both ends of the version ranges in pyproject.toml, and with a built wheel.

All other verbs use exact pins and an editable install, which users do not have. Each end has its own environment, in
which only the wheel's files of the project exist.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import tempfile
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tools import second_chance, side_by_side
from tools.console import say, timed
from tools.environment import PINS, PYTHON, ROOT, Environment

EXTRAS: Final = ("demo", "fast", "metrics", "opentelemetry", "spark", "tubemq")
TOOLS: Final = ("test", "rivals")
"""The groups with the test tools; they stay pinned, because they are not tested here."""
FOLDERS: Final = ("tests/first_hour", "tests/docs", "tests/unit")
NOT_OF_THE_WHEEL: Final = ("tests/docs/test_build.py", "tests/unit/bench", "tests/unit/tools")
NOT_OF_DEPENDENCIES: Final = (
    "coordinator",
    "groups",
    "kafka_front",
    "kafka_limits",
    "kafka_messages",
    "rocketmq_client",
    "rocketmq_front",
    "seams",
    "transactions",
    "wire",
)
"""Folders of ``tests/unit`` for code that imports no dependency itself, so that no version affects it. For the parts
that use records, the tests of records, columns and clients cover the same dependencies."""
IN_A_WHEEL: Final = ("src", "pyproject.toml", "PACKAGE.md", "LICENSE")


def newest(lines: Sequence[str]) -> list[str]:
    """Requirements for pip: the highest version of each dependency, and of their dependencies, available today."""
    return ["--upgrade", "--upgrade-strategy=eager", *lines]


def oldest(lines: Sequence[str]) -> list[str]:
    """Requirements for pip: the lower bound of each dependency; pip chooses their own dependencies as usual."""
    return [re.sub(r">=\s*([\w.]+).*", r"==\1", line) for line in lines]


ENDS: Final[dict[str, Callable[[Sequence[str]], list[str]]]] = {"--newest": newest, "--oldest": oldest}
# The old versions warn about names that their own dependencies have changed since.
WARNINGS: Final = {"--newest": (), "--oldest": ("-W", "default::DeprecationWarning")}


def requirements() -> list[str]:
    """The requirements of the package and its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lines = [*project["dependencies"], *(line for extra in EXTRAS for line in project["optional-dependencies"][extra])]
    return [line for line in lines if not line.startswith("penstock")]


def run(end: str, arguments: Sequence[str]) -> int:
    """Update that end's environment and run the tests in it; returns pytest's exit code."""
    environment = Environment(ROOT / f".venv{end.removeprefix('-')}")
    with environment.alone():
        environment.create_if_missing()
        with timed(f"installing the {end.strip('-')} versions that pyproject.toml allows"):
            pins = [part for group in TOOLS for part in ("-r", str(PINS / f"{group}.txt"))]
            environment.pip(*ENDS[end](requirements()), *pins)
        _install_wheel(environment)
        with timed("compiling kernels, if nobody has yet"):
            subprocess.run([environment.python, "-m", "penstock.kernels.warm"], stdout=subprocess.DEVNULL, check=True)
    return _test(environment, WARNINGS[end], arguments)


def _install_wheel(environment: Environment) -> None:
    """Build and install the wheel, unless the sources have not changed: a new install compiles all kernels again."""
    stamp = environment.folder / "penstock-wheel.sha256"
    digest = _digest_of_sources()
    if stamp.exists() and stamp.read_text(encoding="utf-8") == digest:
        return
    with tempfile.TemporaryDirectory() as folder, timed("installing penstock's wheel"):
        # From a copy, because files of an earlier build in build/ would go into the wheel, too.
        copy = Path(folder, "penstock")
        copy.mkdir()
        for name in IN_A_WHEEL:
            _copy(ROOT / name, copy / name)
        build: list[str | Path] = [
            PYTHON,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
            str(copy),
        ]
        subprocess.run(build, check=True)
        (wheel,) = Path(folder).glob("*.whl")
        environment.pip("--no-deps", "--force-reinstall", str(wheel))
    stamp.write_text(digest, encoding="utf-8")


def _copy(source: Path, target: Path) -> None:
    if source.is_file():
        shutil.copy2(source, target)
    else:
        shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))


def _digest_of_sources() -> str:
    found = hashlib.sha256()
    for file in _sources():
        found.update(f"{file.relative_to(ROOT)}\0{file.stat().st_size}\0".encode() + file.read_bytes())
    return found.hexdigest()


def _sources() -> Iterator[Path]:
    for name in IN_A_WHEEL:
        top = ROOT / name
        files = [top] if top.is_file() else sorted(each for each in top.rglob("*") if each.is_file())
        yield from (each for each in files if "__pycache__" not in each.parts and ".egg-info" not in str(each))


def _test(environment: Environment, warnings: Sequence[str], arguments: Sequence[str]) -> int:
    # src must not be on any path, and Spark's workers must run in the wheel's environment.
    own = {"PYSPARK_PYTHON": str(environment.python), "PYSPARK_DRIVER_PYTHON": str(environment.python)}
    own["PENSTOCK_FAR_SEEDS"] = "1"  # one seed for fronts with a remote enode: versions do not matter for it
    path = os.pathsep.join([str(environment.python.parent), os.environ.get("PATH", os.defpath)])
    surroundings = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"} | own | {"PATH": path}
    named = [word for word in arguments if (ROOT / word.partition("::")[0]).exists()]
    left_out = [*NOT_OF_THE_WHEEL, *(f"tests/unit/{folder}" for folder in NOT_OF_DEPENDENCIES)]
    where = [] if named else [*FOLDERS, *(f"--ignore={folder}" for folder in left_out)]
    apart = () if named else side_by_side.options()
    say(f"{', '.join(named or FOLDERS)} in {environment.folder.name}")

    def pytest(*words: str) -> int:
        # pytest would rewrite the asserts of an installed plugin's whole package on import, and several threads import
        # at the same time, which fails in some versions of Python (seen: 3.11.7; gh-106905).
        line = [
            str(environment.python),
            "-m",
            "pytest",
            "--assert=plain",
            "-q",
            "-o",
            "pythonpath=.",
            *warnings,
            *words,
        ]
        return subprocess.run(line, cwd=ROOT, env=surroundings, check=False).returncode

    return second_chance.run(pytest, [*where, *arguments], apart, only=second_chance.SPARK)
