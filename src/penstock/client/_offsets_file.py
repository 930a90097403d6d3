"""One file with one member's offsets: saved whole or not at all, and nobody else's while this process has it.

A lock file beside it stays; what is locked in it ends with the process, however that ends.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from penstock.errors import ConfigError

__all__ = ["FileOfOffsets"]

T = TypeVar("T")

# Not on Windows: there two members may take one file.
_fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None

_MOST_BYTES: Final = 16 << 20
_HINT: Final = "Give offsets_folder a folder that can be written to, and each member of a machine its own instance_name"


class FileOfOffsets:
    """``penstock.seams.kept_offsets.OffsetsFile``."""

    def __init__(self, path: str) -> None:
        self._path = Path(path).expanduser()
        self._lock: int | None = None

    async def load(self) -> bytes | None:
        """Take the file, and read it."""
        return await self._beside(self._load)

    async def save(self, content: bytes) -> None:
        """Write beside it, sync, and put that into its place; what it had before stays under ``.bak``."""
        await self._beside(lambda: self._save(content))

    def close(self) -> None:
        """Give it up."""
        lock, self._lock = self._lock, None
        if lock is not None:
            os.close(lock)

    async def _beside(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.get_running_loop().run_in_executor(None, work)
        except OSError as error:
            raise ConfigError(f"offsets cannot be kept in {self._path}: {error}", hint=_HINT) from error

    def _load(self) -> bytes | None:
        self._take()
        try:
            if self._path.stat().st_size > _MOST_BYTES:
                raise ConfigError(f"{self._path} is no file of offsets: it has more than {_MOST_BYTES} bytes")
            return self._path.read_bytes()
        except FileNotFoundError:
            return None

    def _save(self, content: bytes) -> None:
        self._take()
        new = self._path.with_suffix(".new")
        with new.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if self._path.exists():
            backup = self._path.with_name(f"{self._path.name}.bak")
            backup.unlink(missing_ok=True)
            os.link(self._path, backup)
        new.replace(self._path)

    def _take(self) -> None:
        if self._lock is not None:
            return
        self._path.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if _fcntl is not None:
                _fcntl.flock(lock, _fcntl.LOCK_EX | _fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            raise ConfigError(f"another member keeps its offsets in {self._path}", hint=_HINT) from None
        except BaseException:
            os.close(lock)
            raise
        self._lock = lock
