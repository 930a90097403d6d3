"""Output of ./dev: one line when a step starts, and one when it is done, with its duration."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stop(Exception):
    """Ends ./dev with this text and exit code 2, because the user must change something on this machine first."""


def say(text: str) -> None:
    print(f"dev: {text}", file=sys.stderr, flush=True)


def seconds(duration: float) -> str:
    return f"{duration:.1f} s" if duration < 60 else f"{int(duration // 60)} min {duration % 60:.0f} s"


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Print the start of a step, and its duration at the end, unless it failed."""
    say(f"{what} …")
    began = time.monotonic()
    yield
    say(f"{what}: {seconds(time.monotonic() - began)}")
