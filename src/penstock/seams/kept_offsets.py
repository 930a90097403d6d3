"""KeepsOffsetsHere: a LogClient whose member's offsets are kept on its own machine, because no server would.

What must not live here: how the file is written, what stands in it.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

__all__ = ["KeepsOffsetsHere", "OffsetsFile"]


class OffsetsFile(Protocol):
    """A file that is one member's. What was saved is there after the process, or the machine, has died."""

    async def load(self) -> bytes | None:
        """What was saved last; None if nothing ever was. Raises ConfigError where another member keeps its own there,
        or nothing can be kept."""
        ...

    async def save(self, content: bytes) -> None:
        """Replace it, all or nothing. Raises ConfigError where that cannot be done; what was there stays."""
        ...

    def close(self) -> None:
        """Let another member have it."""
        ...


@runtime_checkable
class KeepsOffsetsHere(Protocol):
    """A client that is given a file if it names one."""

    @property
    def offsets_file(self) -> str | None:
        """The path that it wants; None: it wants none."""
        ...

    def keep_offsets_in(self, file: OffsetsFile) -> None:
        """Before anything else is asked of it. It closes the file with itself."""
        ...
