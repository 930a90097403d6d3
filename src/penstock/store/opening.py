"""Opening a store: from a URL to a directory, on disk or in memory, and the store in it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from penstock.errors import ConfigError, StoreError
from penstock.store._directory import Directory
from penstock.store._disk import DiskDirectory
from penstock.store._memory import MemoryDirectory
from penstock.store.config import FlushPolicy, StoreConfig, parse_url
from penstock.store.store import Store

__all__ = ["open_store"]


def open_store(
    url: str,
    *,
    flush: FlushPolicy | str | None = None,
    config: StoreConfig | None = None,
    repair: bool = False,
    repair_whole: Callable[[str], bool] | None = None,
    now_ms: int | None = None,
) -> Store:
    """Open (or create) the store at ``memory:`` or ``file:DIRECTORY``; ``flush`` overrides the policy of ``config``.

    With ``repair``, damage that a crash cannot cause is cut off too, and lost files are accepted, instead of refusing
    to open; in both cases `Store.recovered` lists what was cut and where it is kept. Logs of topics for which
    ``repair_whole`` is true are then read in full; of others, what a clean shutdown or a sync vouches for is not read.
    ``now_ms`` replaces the system's wall clock. Raises ConfigError, StoreLocked, StoreDamaged, StoreError.

    >>> with open_store("memory:") as store:
    ...     topic = store.create_topic("flights", 2, {"retention.ms": "-1"})
    ...     store.log("flights", 0).end_offset
    0
    """
    config = config or StoreConfig()
    if flush is not None:
        if flush not in set(FlushPolicy):
            raise ConfigError(f"there is no flush policy {flush!r}", hint=f"Use one of {', '.join(FlushPolicy)}")
        config = replace(config, flush=FlushPolicy(flush))
    scheme, path = parse_url(url)
    directory: Directory = MemoryDirectory()
    if scheme == "file":
        try:
            Path(path).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"cannot create the store's directory: {error}") from error
        directory = DiskDirectory(Path(path))
    now_ms = int(time.time() * 1000) if now_ms is None else now_ms
    return Store(directory, config, now_ms=now_ms, repair=repair, repair_whole=repair_whole)
