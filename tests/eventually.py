"""Waiting for what is decided already, and not seen by everybody yet."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def comes_to(look: Callable[[], T], expected: T, within_s: float = 10.0) -> None:
    """Assert that ``look()`` is ``expected``, now or a moment later.

    A real Kafka answers whoever ends a transaction when its end is decided, and writes the markers then: only these
    show the records to readers of committed ones, and the group its offsets.
    """
    deadline = time.monotonic() + within_s
    while (found := look()) != expected and time.monotonic() < deadline:
        time.sleep(0.1)
    assert found == expected, f"{found!r}, {expected!r} expected, {within_s:g} s later"
