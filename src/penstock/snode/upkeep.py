"""A node's periodic work: checking what an older one wrote, deleting what is past retention, compacting, syncing."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from penstock.seams.runtime import Runtime

if TYPE_CHECKING:
    from penstock.snode.enodes.local import LocalEnode

__all__ = ["keep_up"]

_log = logging.getLogger("penstock.node")


def keep_up(enode: LocalEnode, runtime: Runtime, *, retention_s: float, flush_s: float) -> None:
    """Start it; it ends with the runtime. Logs that fail are named in the node's log, and the others continue."""
    runtime.spawn(_retain(enode, runtime, retention_s), "retention")
    runtime.spawn(_flush(enode, runtime, flush_s), "flush")


async def _retain(enode: LocalEnode, runtime: Runtime, every_s: float) -> None:
    while True:
        await runtime.sleep(every_s)
        for sentence in (*await enode.check_heads(), *enode.enforce_retention(), *await enode.compact()):
            _log.info("%s", sentence)


async def _flush(enode: LocalEnode, runtime: Runtime, every_s: float) -> None:
    while True:
        await runtime.sleep(every_s)
        await enode.flush_if_due()
