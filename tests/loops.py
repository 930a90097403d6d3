"""The event loops that a test runs on, by the names that ``PENSTOCK_EVENT_LOOP`` takes."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

HAS_UVLOOP = find_spec("uvloop") is not None
LOOPS = ["asyncio", pytest.param("uvloop", marks=pytest.mark.skipif(not HAS_UVLOOP, reason="uvloop is not installed"))]
"""Values for ``pytest.mark.parametrize``; uvloop is skipped where it is not installed."""
