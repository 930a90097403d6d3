"""The event loops that are installed, for tests that run on each of them."""

from __future__ import annotations

from importlib.util import find_spec

HAS_UVLOOP = find_spec("uvloop") is not None
EVENT_LOOPS = ["asyncio", "uvloop"] if HAS_UVLOOP else ["asyncio"]
