"""Spark's offset log: the files ``offsets/<batch>`` of a checkpoint, taken apart and put together again, byte for byte.

    v1                                       v2
    {"batchWatermarkMs":0,…}                 {"batchWatermarkMs":0,…}
    <offset of the first source>             <name of a source>:<its offset>
    <offset of the second>                   …

An offset is one line, in whatever form its source likes; ``-`` where a source has none yet. In version 2 (Spark 4.2 and
later, for sources with names) an unnamed source has its place as its name. What must not live here: what offsets look
like inside.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError

__all__ = ["NOTHING", "Batch", "parse_batch"]

NOTHING = "-"
_VERSIONS = ("v1", "v2")


@dataclass(frozen=True, slots=True)
class Batch:
    """One file. ``offsets`` are the lines of its sources by their keys: places ("0", "1", …) or names."""

    number: int
    version: str
    metadata: str
    offsets: Mapping[str, str]

    def with_offsets(self, offsets: Mapping[str, str]) -> Batch:
        """The same batch, with other lines for the sources in ``offsets``."""
        return replace(self, offsets={**self.offsets, **offsets})

    def content(self) -> bytes:
        """The file."""
        named = self.version != "v1"
        lines = [f"{key}:{offset}" if named else offset for key, offset in self.offsets.items()]
        return "\n".join([self.version, self.metadata, *lines]).encode()


def parse_batch(number: int, content: bytes) -> Batch:
    """Take a file apart. Raises ConfigError if it is damaged, or of an unknown version."""
    try:
        version, *rest = content.decode().split("\n")
    except UnicodeDecodeError:
        version, rest = "", []
    if version not in _VERSIONS:
        raise ConfigError(
            f"offsets/{number} begins with {version[:20]!r}: only versions {' and '.join(_VERSIONS)} are known",
            hint="Nothing was changed. A newer Spark needs a newer penstock; a damaged file, its copy from a backup",
        )
    if not rest or not rest[0].startswith("{"):
        raise ConfigError(f"offsets/{number} is damaged: it ends before its metadata", hint="Nothing was changed")
    metadata, *lines = rest
    batch = Batch(number, version, metadata, _by_key(number, version, lines))
    assert batch.content() == content
    return batch


def _by_key(number: int, version: str, lines: list[str]) -> Mapping[str, str]:
    if version == "v1":
        return {str(place): line for place, line in enumerate(lines)}
    found = {}
    for line in lines:
        name, colon, offset = line.partition(":")
        if not colon or not name or name in found:
            raise ConfigError(f"offsets/{number} is damaged: {line[:80]!r} names no source", hint="Nothing was changed")
        found[name] = offset
    return found
