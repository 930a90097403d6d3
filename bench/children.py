"""Runs cases in separate processes, and reads the JSON object that a case prints last, or those it prints before."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from bench.servers import ROOT, environment

__all__ = ["READY", "CaseFailed", "begun", "child", "last_words", "lines"]

READY = "@ready"
"""The line that a case prints when the others may begin."""


class CaseFailed(Exception):
    """A case gave no figure; the text is the end of its output."""


def child(module: str, job: Mapping[str, object], *, timeout_s: float = 300.0) -> dict[str, object]:
    """Run ``python -m module JOB`` (JSON) and return the object that it printed last. Raises CaseFailed."""
    line = [sys.executable, "-m", module, json.dumps(job)]
    try:
        run = subprocess.run(
            line, capture_output=True, text=True, timeout=timeout_s, check=False, env=environment(), cwd=ROOT
        )
    except subprocess.TimeoutExpired:
        raise CaseFailed(f"no end after {timeout_s:.0f} s") from None
    lines = run.stdout.strip().splitlines()
    if run.returncode or not lines:
        raise CaseFailed((run.stderr or run.stdout).strip()[-1500:])
    answer = json.loads(lines[-1])
    assert isinstance(answer, dict)
    return answer


def lines(module: str, job: Mapping[str, object]) -> Iterator[dict[str, Any]]:
    """Run ``python -m module JOB`` (JSON) and yield its results as they come: JSON objects in lines that begin with @.

    All other output is Spark's. Raises CaseFailed at its end if it failed.
    """
    line = [sys.executable, "-m", module, json.dumps(job)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as process:
        assert process.stdout is not None
        for text in process.stdout:
            if text.startswith("@"):
                yield json.loads(text[1:])
    if process.returncode:
        raise CaseFailed(f"it ended with {process.returncode}")


@contextmanager
def begun(module: str, job: Mapping[str, object]) -> Iterator[subprocess.Popen[str]]:
    """``python -m module JOB`` (JSON), after it has printed `READY`; the block waits for its end. Raises CaseFailed."""
    line = [sys.executable, "-m", module, json.dumps(job)]
    with subprocess.Popen(line, stdout=subprocess.PIPE, text=True, env=environment(), cwd=ROOT) as process:
        try:
            assert process.stdout is not None
            if process.stdout.readline().strip() != READY:
                raise CaseFailed(f"{job['part']} did not get ready")
            yield process
        except BaseException:
            process.kill()
            raise


def last_words(process: subprocess.Popen[str]) -> dict[str, object]:
    """Wait for a case from `begun`; returns the JSON object that it prints last. Raises CaseFailed."""
    assert process.stdout is not None
    said = process.stdout.read().strip().splitlines()
    if process.wait() or not said:
        raise CaseFailed(f"it ended with {process.returncode}")
    found = json.loads(said[-1])
    assert isinstance(found, dict)
    return found
