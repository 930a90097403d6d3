"""Producers over plain sockets, of any protocol, under which a node is killed: what each sent, what was acknowledged.

What must not live here: the requests of one protocol.
"""

from __future__ import annotations

import random
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from typing import Protocol

from penstock.client import Admin, RangeReader
from penstock.errors import ServerError
from penstock.interfaces import NewTopic
from penstock.interfaces.framing import Frame, Framing
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.testing import NodeProcess

PRODUCERS = 3
AT_ONCE = 50
MESSAGES = 2_000
WITHIN_S = 300.0


class Line:
    """A connection whose answers are cut by the protocol's own framing."""

    def __init__(self, port: int, framing: Framing) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._stream = self._socket.makefile("rb")
        self._framing = framing

    def close(self) -> None:
        self._stream.close()
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def receive(self) -> Frame:
        """Raises OSError at the end of the connection."""
        while True:
            wanted = self._framing.need()
            chunk = self._stream.read(wanted)
            if len(chunk) < wanted:
                raise ConnectionResetError
            frame = self._framing.feed(memoryview(chunk))
            if frame is not None:
                return frame


@dataclass(frozen=True)
class Spoken:
    """How a protocol sends its message ``b"%d" % number``, under that correlation, and the offset in the answer."""

    framing: Callable[[], Framing]
    sending: Callable[[int], bytes]
    offset: Callable[[Frame], int]


class Producer:
    """Sends its own numbers, many at once, until all are acknowledged; again after a broken connection."""

    def __init__(self, number: int, port: int, spoken: Spoken) -> None:
        self.numbers = range(number, MESSAGES, PRODUCERS)
        self.acknowledged: dict[int, int] = {}
        self._port = port
        self._spoken = spoken

    def run(self) -> None:
        while left := [number for number in self.numbers if number not in self.acknowledged]:
            try:
                with closing(Line(self._port, self._spoken.framing())) as line:
                    for at in range(0, len(left), AT_ONCE):
                        self._send(line, left[at : at + AT_ONCE])
            except OSError:
                continue

    def _send(self, line: Line, numbers: list[int]) -> None:
        line.send(b"".join(map(self._spoken.sending, numbers)))
        for _ in numbers:
            frame = line.receive()
            with suppress(ServerError):  # a refusal acknowledges nothing
                self.acknowledged[frame.correlation] = self._spoken.offset(frame)


class Killable(Protocol):
    """A process that comes back where it was."""

    def kill(self) -> None: ...
    def start(self) -> None: ...


def killed_under_producers(
    node: NodeProcess, port: int, spoken: Spoken, seed: int, *, killed: Killable | None = None
) -> None:
    """Write `MESSAGES` numbers to the only partition of topic t, killing the node, or what stands before it, twice; all
    are there, where the answers said."""
    dice = random.Random(seed)
    killed = killed or node
    with Admin(node.address) as admin:
        admin.create_topics([NewTopic("t", 1)])
    producers = [Producer(number, port, spoken) for number in range(PRODUCERS)]
    threads = [threading.Thread(target=producer.run, daemon=True) for producer in producers]
    for thread in threads:
        thread.start()
    for share in sorted(dice.sample(range(1, 10), 2)):
        while sum(len(producer.acknowledged) for producer in producers) < MESSAGES * share // 10:
            threads[0].join(0.001)
        killed.kill()
        killed.start()
    for thread in threads:
        thread.join(WITHIN_S)
    stored = dict(values(node, "t"))
    for producer in producers:
        assert {number: stored[offset] for number, offset in producer.acknowledged.items()} == {
            number: b"%d" % number for number in producer.numbers
        }


def values(node: NodeProcess, topic: str) -> Iterator[tuple[int, bytes | None]]:
    """Offset and value of everything in a topic's only partition, through Kafka."""
    with RangeReader(node.address) as reader:
        place = Partition(topic, 0)
        end = reader.offsets({place: OffsetSpec(name=Offset.LATEST)})[place].offset
        for batch in reader.read(LogRange.of(place, 0, end)):
            for record in batch:
                yield record.offset, record.value


def free_port() -> int:
    """One that a node keeps over its restarts."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port: int = held.getsockname()[1]
        return port
