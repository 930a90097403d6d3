"""SIGINT, where a shell that starts tests in the background makes them, and all that they start, ignore it."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["python_hears_ctrl_c"]


@contextmanager
def python_hears_ctrl_c() -> Iterator[None]:
    """In the block SIGINT raises KeyboardInterrupt here, and is not ignored in processes that are started."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
