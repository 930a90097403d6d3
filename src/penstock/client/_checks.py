"""What a log asks about transactions of earlier producers, put to a function of the application.

What must not live here: when a log asks, and what it is told of a producer's own (the protocol's sender).
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import TypeAlias

from penstock.config.logs import ClientLog
from penstock.model import Record
from penstock.seams import AnswerCheck

__all__ = ["CheckCallback", "checking"]

CheckCallback: TypeAlias = Callable[[Record], "bool | Awaitable[bool | None] | None"]
"""What ``answer_checks`` takes: True for a record whose transaction was committed, None if that is not known yet."""


def checking(callback: CheckCallback, log: ClientLog) -> AnswerCheck:
    """``callback`` in a thread, since it may look something up, or on the loop if it is a coroutine function. One that
    raises is logged, and has said nothing."""

    async def answer(record: Record) -> bool | None:
        try:
            found = (
                callback(record) if inspect.iscoroutinefunction(callback) else await asyncio.to_thread(callback, record)
            )
            return await found if inspect.isawaitable(found) else found
        except Exception as error:
            log.error("a check of topic %s raised, and is asked again: %r", record.topic, error, exc_info=error)
            return None

    return answer
