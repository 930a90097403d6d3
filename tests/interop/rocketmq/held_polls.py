"""Long polls as raw frames, many on a few connections, of groups that nobody has heard of; nothing of penstock."""

from __future__ import annotations

import asyncio
import json
import struct
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

__all__ = ["HeldPolls", "share"]

_PULL, _SEND = 11, 310
_SUSPEND_AND_INLINE = 6
_HELD_MS = 60_000


def share(figures: Sequence[float], part: float) -> float:
    """The figure below which this part of them lies."""
    ordered = sorted(figures)
    return ordered[min(len(ordered) - 1, int(len(ordered) * part))]


@dataclass(slots=True)
class HeldPolls:
    """Of queue 0 of a topic of a broker; connections are opened once and kept."""

    port: int
    broker: str
    topic: str
    connections: int = 10
    _writers: list[asyncio.StreamWriter] = field(default_factory=list)
    _tasks: list[asyncio.Task[None]] = field(default_factory=list)
    _waiting: dict[int, asyncio.Future[tuple[int, Mapping[str, str], float]]] = field(default_factory=dict)
    _number: int = 0

    async def open(self) -> None:
        """Connect."""
        for _ in range(self.connections):
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            self._writers.append(writer)
            self._tasks.append(asyncio.ensure_future(self._read(reader)))

    async def close(self) -> None:
        """Hang up."""
        for writer in self._writers:
            writer.close()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def hold(
        self, groups: Sequence[str], offset: int
    ) -> Sequence[asyncio.Future[tuple[int, Mapping[str, str], float]]]:
        """One poll a group, from this offset on: code, fields and the time of each answer."""
        return [self._ask(_PULL, self._pull(group, offset), row) for row, group in enumerate(groups)]

    async def send(self, body: bytes = b"x") -> int:
        """One message: its offset."""
        fields = {"a": "senders", "b": self.topic, "c": "TBW102", "d": 4, "e": 0, "f": 0, "g": 0, "h": 0, "i": ""}
        code, said, _ = await self._ask(_SEND, {**fields, "j": 0, "k": "false", "n": self.broker}, 0, body)
        assert code == 0, said
        return int(said["queueOffset"])

    def _pull(self, group: str, offset: int) -> Mapping[str, object]:
        return {
            "consumerGroup": group,
            "topic": self.topic,
            "queueId": 0,
            "queueOffset": offset,
            "maxMsgNums": 1,
            "sysFlag": _SUSPEND_AND_INLINE,
            "commitOffset": 0,
            "suspendTimeoutMillis": _HELD_MS,
            "subscription": "*",
            "subVersion": 0,
            "expressionType": "TAG",
            "bname": self.broker,
        }

    def _ask(
        self, code: int, fields: Mapping[str, object], row: int, body: bytes = b""
    ) -> asyncio.Future[tuple[int, Mapping[str, str], float]]:
        self._number += 1
        said = {"code": code, "language": "OTHER", "version": 0, "opaque": self._number, "flag": 0}
        header = json.dumps({**said, "extFields": {name: str(value) for name, value in fields.items()}}).encode()
        answered = self._waiting[self._number] = asyncio.get_running_loop().create_future()
        frame = struct.pack(">ii", 4 + len(header) + len(body), len(header)) + header + body
        self._writers[row % len(self._writers)].write(frame)
        return answered

    async def _read(self, reader: asyncio.StreamReader) -> None:
        while True:
            try:
                size, kind_and_size = struct.unpack(">ii", await reader.readexactly(8))
                rest = await reader.readexactly(size - 4)
            except (asyncio.IncompleteReadError, OSError):
                return
            when = time.perf_counter()
            head = json.loads(rest[: kind_and_size & 0xFFFFFF])
            self._waiting.pop(head["opaque"]).set_result((head["code"], head.get("extFields") or {}, when))
