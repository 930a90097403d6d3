"""Threads take turns more often while something is imported, and as before afterwards, however many do it at once."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from penstock.client.runtime.imports import faster_thread_switches


def about(interval_s: float) -> Any:
    """The interpreter cuts it to whole microseconds."""
    return pytest.approx(interval_s, abs=1.1e-6)


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    before = sys.getswitchinterval()
    yield
    sys.setswitchinterval(before)


@pytest.mark.parametrize("first_ends_first", [True, False])
def test_the_last_one_to_end_puts_back_what_was(first_ends_first: bool) -> None:
    sys.setswitchinterval(0.007)
    one, other = ExitStack(), ExitStack()
    one.enter_context(faster_thread_switches())
    other.enter_context(faster_thread_switches())
    assert sys.getswitchinterval() == about(0.000_5)
    for each in (one, other) if first_ends_first else (other, one):
        assert sys.getswitchinterval() == about(0.000_5)
        each.close()
    assert sys.getswitchinterval() == about(0.007)


@pytest.mark.parametrize("interval_s", [0.000_1, 0.02])
def test_what_others_set_stays(interval_s: float) -> None:
    with faster_thread_switches():
        sys.setswitchinterval(interval_s)
    assert sys.getswitchinterval() == about(interval_s)
    sys.setswitchinterval(0.000_1)
    with faster_thread_switches():
        assert sys.getswitchinterval() == about(0.000_1)
    assert sys.getswitchinterval() == about(0.000_1)
