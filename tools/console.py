"""How ./dev speaks: one line when it starts something, one when it is done, with the time it took.

What must not live here: what is being done.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class Stop(Exception):
    """Ends ./dev with this text and exit code 2: something on this machine has to change first."""


def say(text: str) -> None:
    print(f"dev: {text}", file=sys.stderr, flush=True)


def seconds(duration: float) -> str:
    return f"{duration:.1f} s" if duration < 60 else f"{int(duration // 60)} min {duration % 60:.0f} s"


@contextmanager
def timed(what: str) -> Iterator[None]:
    """Say what begins, and afterwards how long it took; silent about the end if it failed."""
    say(f"{what} …")
    began = time.monotonic()
    yield
    say(f"{what}: {seconds(time.monotonic() - began)}")
