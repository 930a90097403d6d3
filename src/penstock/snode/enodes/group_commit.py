"""Waiting for the disk: all who wait for one log while it is being synced share the next sync (group commit)."""

from __future__ import annotations

from penstock.errors import PenstockError
from penstock.seams.runtime import Promise, Runtime
from penstock.store.log import PartitionLog

__all__ = ["GroupCommit"]


class GroupCommit:
    """Syncs run in a thread, one at a time for each log."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._running: dict[PartitionLog, Promise[PenstockError | None]] = {}

    async def reach(self, log: PartitionLog) -> None:
        """Return when everything in ``log`` is on the disk. Raises WriteFailed."""
        wanted = log.end_offset
        while log.flushed_offset < wanted:
            running = self._running.get(log)
            error = await (self._sync(log) if running is None else running)
            if error is not None:
                # For all that shared it too: after a failed sync the next one may succeed without their bytes.
                raise error

    async def _sync(self, log: PartitionLog) -> PenstockError | None:
        promise = self._running[log] = self._runtime.promise()
        error: PenstockError | None = None
        try:
            flush = log.prepare_flush()
            if flush is not None:
                await self._runtime.in_thread(flush.run)
                flush.finish()
        except PenstockError as caught:
            error = caught
        finally:
            del self._running[log]
            promise.set(error)
        return error
