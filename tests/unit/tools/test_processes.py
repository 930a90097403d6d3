"""Whoever has ended since he was found is left out, whatever he is asked for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from subprocess import PIPE

import psutil
import pytest

from tests.processes import above, answers, below, called_with, end, named


@pytest.fixture
def child() -> Iterator[psutil.Popen]:
    """It waits for its standard input to close."""
    with psutil.Popen([sys.executable, "-c", "print(flush=True); input()"], stdin=PIPE, stdout=PIPE) as running:
        running.stdout.readline()
        yield running
        end(running)


def test_they_are_found_from_both_ends(child: psutil.Popen) -> None:
    assert child in below(psutil.Process())
    assert above(child)[0] == psutil.Process()
    assert child in named(below(psutil.Process()), child.name())
    assert called_with(below(psutil.Process()), "flush=True") == [child]


def test_who_has_ended_is_left_out(child: psutil.Popen) -> None:
    found, name = below(psutil.Process()), child.name()
    end(child)
    child.wait()
    assert child not in named(found, name)
    assert called_with(found, "flush=True") == []
    assert list(answers([child], psutil.Process.ppid)) == []
    assert below(child) == above(child) == []


def test_a_zombie_has_no_command_line(child: psutil.Popen) -> None:
    found = below(psutil.Process())
    end(child)
    child.stdout.read()  # until it is over
    assert called_with(found, "flush=True") == []
