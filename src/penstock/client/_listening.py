"""How listeners and callbacks are called under an AsyncConsumer: on the loop, and awaited if they are coroutines."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable

__all__ = ["Call", "call_on_loop"]

Call = Callable[[Callable[[], object]], Awaitable[None]]
"""Runs a piece of the application's code where the application expects it to run."""


async def call_on_loop(work: Callable[[], object]) -> None:
    """Call it here and now."""
    answer = work()
    if inspect.isawaitable(answer):
        await answer
