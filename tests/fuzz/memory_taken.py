"""How much memory one input took at its worst: a length that lies must not get what it asks for."""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

_MOST: Final = 192 << 20
_UNIT: Final = 1 if sys.platform == "darwin" else 1024  # of ru_maxrss


@contextmanager
def no_more_memory(most: int = _MOST) -> Iterator[None]:
    """Raises AssertionError if the process's peak grows by more than ``most`` bytes in the block."""
    before = _peak()
    yield
    taken = _peak() - before
    assert taken <= most, f"{taken >> 20} MiB of memory for one input"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _UNIT
