"""Spark asks every Java for a module that a small runtime lacks; the launcher must drop that argument and no other."""

import subprocess
from pathlib import Path

import pytest

from tools.java import LAUNCHER

DROPPED = "jdk.incubator.vector"


@pytest.fixture
def launcher(tmp_path: Path) -> Path:
    """The launcher in front of a "java" that prints its arguments, one a line, in brackets."""
    java = tmp_path / "real java"
    java.write_text("#!/bin/sh\nprintf '[%s]\\n' \"$@\"\n")
    script = tmp_path / "java"
    script.write_text(LAUNCHER % java)
    for file in (java, script):
        file.chmod(0o755)
    return script


@pytest.mark.parametrize(
    ("given", "received"),
    [
        (["-version"], ["-version"]),
        ([f"--add-modules={DROPPED}", "-cp", "a b:c", "Main"], ["-cp", "a b:c", "Main"]),
        (["-Xmx1g", "--add-modules", DROPPED, "Main", ""], ["-Xmx1g", "Main", ""]),
        (["--add-modules=java.sql", "Main"], ["--add-modules=java.sql", "Main"]),
        (["--add-modules", "java.sql", "Main", "$HOME", "*"], ["--add-modules", "java.sql", "Main", "$HOME", "*"]),
        (["Main", "--add-modules"], ["Main", "--add-modules"]),
    ],
)
def test_one_argument_is_dropped_and_the_others_arrive_as_they_are(
    launcher: Path, given: list[str], received: list[str]
) -> None:
    run = subprocess.run([launcher, *given], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [f"[{word}]" for word in received]
