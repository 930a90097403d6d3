"""A checkpoint as Spark 4.3.0 and its Kafka connector 4.2.0 wrote it (AvailableNow, ``maxOffsetsPerTrigger=20``).

The settings in the metadata are shortened to one; everything else is as it was. What must not live here: assertions.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

ENDS = (
    '{"t":{"0":8,"1":12}}',
    '{"t":{"0":16,"1":24}}',
    '{"t":{"0":20,"1":30}}',
    '{"t":{"0":24,"1":36}}',
)
METADATA = '{{"batchWatermarkMs":0,"batchTimestampMs":{},"conf":{{"spark.sql.shuffle.partitions":"2"}}}}'
COMMIT = b'v1\n{"nextBatchWatermarkMs":0}'
CRC = b"crc\x00\x00\x00\x02\x00\xf3*\xbf\xdd"
LONG_AGO = 1_795_349_722


def metadata(batch: int) -> str:
    return METADATA.format(1_795_349_722_402 + 1_000 * batch)


def write(
    root: Path,
    batches: Mapping[int, Sequence[str]] | None = None,
    *,
    committed: int = 99,
    version: str = "v1",
    initials: Mapping[str, str] | None = None,
) -> Path:
    """Write one; ``batches`` are the lines of the sources, ``committed`` the newest batch that was completed."""
    batches = {number: [line] for number, line in enumerate(ENDS)} if batches is None else batches
    put(root / "metadata", b'{"id":"699959ac-383c-464a-bb45-4573d9346222"}')
    for number, lines in batches.items():
        put(root / "offsets" / str(number), "\n".join([version, metadata(number), *lines]).encode())
        if number <= committed:
            put(root / "commits" / str(number), COMMIT)
    for key, positions in ({"0": '{"t":{"0":0,"1":0}}'} if initials is None else initials).items():
        put(root / "sources" / key / "0", b"\x00v1\n" + positions.encode())
    put(root / "state" / "0" / "0" / "1.delta", b"rows")
    return root


def put(path: Path, content: bytes) -> None:
    """A file and the checksum that Hadoop writes beside it, both as old as the recording."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.with_name(f".{path.name}.crc").write_bytes(CRC)
    os.utime(path, (LONG_AGO - 10**9, LONG_AGO - 10**9))


def tree(root: Path) -> dict[str, bytes]:
    """All files but checksums, and copies of originals."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.suffix != ".crc" and "originals" not in path.parts
    }


def lines(root: Path, batch: int) -> list[str]:
    return (root / "offsets" / str(batch)).read_text().split("\n")[2:]
