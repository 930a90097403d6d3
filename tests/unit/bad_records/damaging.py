"""A wire that damages: a relay before a node, which changes one byte of a known text in what the node answers."""

from __future__ import annotations

import contextlib
import socket
import threading
from types import TracebackType
from typing import Self

from penstock.client import Producer
from penstock.testing import Broker
from tools.peers.jvm import free_ports

__all__ = ["MARKED", "SCHEMES", "TOPIC", "DamagingWire"]

SCHEMES = ("kafka", "rocketmq", "tubemq")
TOPIC = "damaged"
MARKED = b"<<<to be damaged>>>"
DAMAGED = b"<<<to be DAMAGED>>>"
_BYTES = 1 << 16


class DamagingWire:
    """Clients of ``url`` get every answer of a node of its own, and `MARKED` damaged in it."""

    def __init__(self, scheme: str) -> None:
        self.scheme = scheme
        self._listening = socket.create_server(("127.0.0.1", 0))
        at = f"{scheme}://127.0.0.1:{self._listening.getsockname()[1]}"
        (self._port,) = free_ports(1)
        others = ["kafka://127.0.0.1:0"] if scheme != "kafka" else []
        self.broker = Broker(listen=[*others, f"{scheme}://127.0.0.1:{self._port}"], advertised=[at])
        self.url = f"{at}/{TOPIC}"
        self._ends: list[socket.socket] = []
        self._threads: list[threading.Thread] = []

    def __enter__(self) -> Self:
        self.broker.start()
        self.broker.create_topic(TOPIC)
        self._begin(self._accept)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        for end in self._ends:
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join()
        for end in self._ends:
            end.close()
        self.broker.stop()

    def fill(self, *values: bytes) -> None:
        """Each in a batch of its own."""
        with Producer(self.broker.address) as producer:
            for value in values:
                producer.send(TOPIC, value, partition=0).result()

    def _begin(self, work: object, *given: object) -> None:
        thread = threading.Thread(target=work, args=given, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listening.accept()
            except OSError:
                return
            far = socket.create_connection(("127.0.0.1", self._port))
            self._ends += [near, far]
            self._begin(_carry, near, far, False)
            self._begin(_carry, far, near, True)


def _carry(source: socket.socket, target: socket.socket, damages: bool) -> None:
    try:
        while data := source.recv(_BYTES):
            while damages and any(data.endswith(MARKED[:size]) for size in range(3, len(MARKED))):
                data += source.recv(_BYTES)
            target.sendall(data.replace(MARKED, DAMAGED) if damages else data)
        target.shutdown(socket.SHUT_WR)
    except OSError:
        return
