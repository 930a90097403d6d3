"""Record batches of every format, as a Fetch answer would bring them. The checksum is passed over half the time."""

from collections.abc import Iterator
from pathlib import Path

from penstock.protocols.kafka.wire.records import decode

_BATCHES = Path(__file__).resolve().parents[1] / "data" / "kafka" / "batches"
_MOST_INFLATED = 8 << 20


def run(data: bytes) -> None:
    """Decode to the end of ``data``; a reader that makes no progress would read for ever."""
    check = bool(data) and data[-1] % 2 == 0
    offset, position = 0, 0
    while True:
        found = decode(data, position=position, start=offset, check_crcs=check, max_inflated_bytes=_MOST_INFLATED)
        found.batch.validate(full=True)
        assert found.next_offset >= offset
        assert position <= found.consumed <= len(data)
        if found.consumed == position:
            return
        offset, position = found.next_offset, found.consumed


def seeds() -> Iterator[bytes]:
    """The small ones of the recorded batches."""
    for file in sorted(_BATCHES.glob("*.bin")):
        data = file.read_bytes()
        if len(data) <= 2_000:
            yield data
