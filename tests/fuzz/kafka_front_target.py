"""A node's Kafka front: whatever frame a client sends is answered or is our error, and nothing beside it fails."""

import asyncio
from collections.abc import Iterator

from penstock.protocols.kafka.groups.classic_group import GroupSettings
from penstock.protocols.kafka.server.front import TABLE
from penstock.protocols.kafka.server.limits import KafkaFrontOptions
from tests.unit.kafka_front.kit import Kit, batch, serving
from tests.vectors.kafka_frames.recorded import files, recorded

_OPTIONS = KafkaFrontOptions(max_partitions=20, groups=GroupSettings(min_session_timeout_ms=1))
_ROUNDS = 30
_LONGEST_SEED = 2_000


def run(data: bytes) -> None:
    """``data`` is a request without its size."""
    asyncio.run(_serve(data))


async def _serve(data: bytes) -> None:
    async with serving(_OPTIONS) as kit:
        kit.store.create_topic("events", 4)
        await kit.produce("events", batch([b"a", b"b"]))
        task = asyncio.ensure_future(kit.send(len(data).to_bytes(4, "big") + data))
        for _ in range(_ROUNDS):
            await asyncio.sleep(0)
        if not task.done():  # parked, as it may be; then it must wake when its client is gone or the node stops
            await _end(kit)
        await asyncio.wait_for(task, 5)


async def _end(kit: Kit) -> None:
    kit.session.lost()
    await kit.front.stop()


def seeds() -> Iterator[bytes]:
    """One small recorded request of each API and version."""
    seen = set()
    for name in files():
        for frame in recorded(name):
            kind = (frame.api_key, frame.version)
            if frame.is_request and frame.api_key in TABLE and kind not in seen and len(frame.wire) <= _LONGEST_SEED:
                seen.add(kind)
                yield frame.wire[4:]
