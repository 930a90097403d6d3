"""The files of a checkpoint: what a conversion needs of the place that keeps them, and a local folder.

What must not live here: what is in them; places that only Hadoop can reach (``hadoop``).
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Protocol

__all__ = ["Files", "LocalFiles"]


class Files(Protocol):
    """Files in a checkpoint's folder, by their paths relative to it, with ``/`` between the parts."""

    def modified(self, folder: str) -> Mapping[str, float]:
        """A folder's files, and when each was written (seconds since 1970); none if the folder is missing."""
        ...

    def folders(self, folder: str) -> list[str]:
        """The names of a folder's folders; none if the folder is missing."""
        ...

    def read(self, path: str) -> bytes | None:
        """A file's content; None if it is missing."""
        ...

    def replace(self, path: str, content: bytes) -> None:
        """Write a file, and its folder; atomically if the file system can.

        A checksum that Hadoop keeps beside the file would no longer match; it is deleted first.
        """
        ...

    def delete(self, path: str) -> None:
        """Delete a file, if it is there."""
        ...


class LocalFiles:
    """A folder of this machine. Files keep their owner and mode, so that the query's user can still read them."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def modified(self, folder: str) -> Mapping[str, float]:
        found = self._root / folder
        return {each.name: each.stat().st_mtime for each in found.iterdir() if each.is_file()} if found.is_dir() else {}

    def folders(self, folder: str) -> list[str]:
        found = self._root / folder
        return sorted(each.name for each in found.iterdir() if each.is_dir()) if found.is_dir() else []

    def read(self, path: str) -> bytes | None:
        try:
            return (self._root / path).read_bytes()
        except FileNotFoundError:
            return None

    def replace(self, path: str, content: bytes) -> None:
        target = self._root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        # The same name every time: what a killed run left is overwritten. Spark ignores names that are not numbers.
        written = target.with_name(f".{target.name}.converted")
        with written.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        self._as_before(target, written)
        target.with_name(f".{target.name}.crc").unlink(missing_ok=True)
        written.replace(target)
        self._sync(target.parent)

    def delete(self, path: str) -> None:
        (self._root / path).unlink(missing_ok=True)

    def _as_before(self, target: Path, written: Path) -> None:
        like = target if target.exists() else self._root / "metadata"
        with suppress(FileNotFoundError):
            shutil.copymode(like, written)
            owner = like.stat()
            with suppress(PermissionError):
                os.chown(written, owner.st_uid, owner.st_gid)

    @staticmethod
    def _sync(folder: Path) -> None:
        entry = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(entry)
        finally:
            os.close(entry)
