"""What a node does by itself now and then: deleting what retention no longer covers, syncing what is due."""

from __future__ import annotations

import logging

from penstock.errors import PenstockError
from penstock.seams.runtime import Runtime
from penstock.snode.enodes.local import LocalEnode

__all__ = ["keep_up"]

_log = logging.getLogger(__name__)


def keep_up(enode: LocalEnode, runtime: Runtime, *, retention_s: float, flush_s: float) -> None:
    """Begin both; they end with the runtime. Trouble is logged and tried again: readers need no disk to write to."""
    runtime.spawn(_retain(enode, runtime, retention_s), "retention")
    runtime.spawn(_flush(enode, runtime, flush_s), "flush")


async def _retain(enode: LocalEnode, runtime: Runtime, every_s: float) -> None:
    while True:
        await runtime.sleep(every_s)
        try:
            for sentence in (*enode.enforce_retention(), *await enode.compact()):
                _log.info("%s", sentence)
        except PenstockError as error:
            _log.error("retention or compaction failed: %s", error)


async def _flush(enode: LocalEnode, runtime: Runtime, every_s: float) -> None:
    while True:
        await runtime.sleep(every_s)
        try:
            await enode.flush_if_due()
        except PenstockError as error:
            _log.error("syncing the log failed: %s", error)
