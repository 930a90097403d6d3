"""Syncing many logs at once, within a time limit: what a node does when it stops.

A disk serves many concurrent syncs at the price of one, so several threads sync. Only logs whose flush policy does not
promise durability can run out of time; the next start scans them. What must not live here: what a flush does.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Final

from penstock import _clock
from penstock.errors import WriteFailed
from penstock.store._flush import Flush

if TYPE_CHECKING:
    from penstock.store.log import PartitionLog

__all__ = ["flush_together"]

_THREADS: Final = 16
_AT_ONCE: Final = 2 * _THREADS
"""Flushes prepared at a time: each holds file handles until it has run."""


def flush_together(
    logs: Sequence[PartitionLog], within_s: float | None, trouble: Callable[[WriteFailed], None]
) -> None:
    """Sync as many of ``logs`` as time allows (None: all of them); ``trouble`` gets the error of each one that fails.

    Waits for every sync that has begun: a sync cannot be cancelled.
    """
    if len(logs) < 2:
        for log in logs:
            _report_failure(log.flush, trouble)
        return
    ends = None if within_s is None else _clock.monotonic() + within_s
    running: dict[Future[None], Flush] = {}
    with ThreadPoolExecutor(_THREADS, thread_name_prefix="penstock-sync") as threads:
        for log in logs:
            if ends is not None and _clock.monotonic() >= ends:
                break
            while len(running) >= _AT_ONCE:
                _finish(running, trouble, all_of_them=False)
            flush = _prepared(log, trouble)
            if flush is not None:
                running[threads.submit(flush.run)] = flush
        _finish(running, trouble, all_of_them=True)


def _prepared(log: PartitionLog, trouble: Callable[[WriteFailed], None]) -> Flush | None:
    try:
        return log.prepare_flush()
    except WriteFailed as error:
        trouble(error)
        return None


def _finish(running: dict[Future[None], Flush], trouble: Callable[[WriteFailed], None], *, all_of_them: bool) -> None:
    done = list(running) if all_of_them else wait(running, return_when=FIRST_COMPLETED).done
    for future in done:
        flush = running.pop(future)
        _report_failure(future.result, trouble)
        flush.finish()


def _report_failure(work: Callable[[], None], trouble: Callable[[WriteFailed], None]) -> None:
    try:
        work()
    except WriteFailed as error:
        trouble(error)
