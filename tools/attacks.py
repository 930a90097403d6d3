"""``python -m tools.attacks [WORD…]``: measures how long a client of small requests waits during attacks.

A node runs in its own process; each attack lasts some seconds. The figures depend on this machine and its other load,
so tests assert memory and service instead of these times. After the attacks with many connections come single
requests: for each API the largest that the node accepts, and one with a million entries. ``WORD`` selects attacks by
name.
"""

from __future__ import annotations

import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path

import penstock
from penstock.model import Codec
from penstock.protocols.kafka.wire.fetch import FetchRequest, FetchRequestPartition, FetchRequestTopic
from penstock.protocols.kafka.wire.framing import request
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest
from penstock.protocols.kafka.wire.produce import ProduceRequest, ProduceRequestPartition, ProduceRequestTopic
from penstock.records.compression import compress
from penstock.testing.process import NodeProcess
from tests.hostile_requests import hostile_names, hostile_request
from tests.unit.kafka_front.kit import batch, record

Attack = Callable[[NodeProcess], AbstractContextManager[None]]

_SECONDS = 3.0
_TAKEN, _MILLION = 49_000, 1_000_000
_LIMIT_MS = 200.0
_CLAIM = (100 << 20).to_bytes(4, "big") + b"\0"
_SMALL = b"".join(request(ApiVersionsRequest(), 0, "canary")(7))


def main() -> int:
    """Print a line per attack; returns 1 if the 99th percentile of the canary (the small client) exceeded the limit."""
    worst = 0.0
    picked = [name for name in _attacks() if not sys.argv[1:] or any(word in name for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory() as folder, NodeProcess(Path(folder)) as node:
        _fill(node)
        for name, attack in _attacks().items():
            if name not in picked:
                continue
            _forget_peak(node)
            with attack(node):
                waits = _canary(node)
            p99 = waits[int(len(waits) * 0.99)]
            worst = max(worst, p99)
            middle = waits[len(waits) // 2]
            print(
                f"{name:60} p50 {middle:7.1f} ms  p99 {p99:7.1f} ms  max {waits[-1]:7.1f} ms  peak {_peak(node):5} MB",
                flush=True,
            )
    return int(worst > _LIMIT_MS)


def _fill(node: NodeProcess) -> None:
    with penstock.Producer(node.address) as producer:
        for _ in range(60):
            producer.send("t", value=bytes(900_000)).result()


def _canary(node: NodeProcess) -> list[float]:
    """The waits of the client of small requests: sorted, in ms."""
    waits = []
    ends = time.monotonic() + _SECONDS
    with _connect(node) as client:
        while (begun := time.monotonic()) < ends:
            client.sendall(_SMALL)
            _answer(client)
            waits.append((time.monotonic() - begun) * 1_000)
            time.sleep(0.005)
    return sorted(waits)


def _connect(node: NodeProcess) -> socket.socket:
    host, _, port = node.bootstrap.rpartition(":")
    return socket.create_connection((host, int(port)), 30)


def _answer(client: socket.socket) -> None:
    size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
    client.recv(size, socket.MSG_WAITALL)


def _peak(node: NodeProcess) -> int:
    """Peak memory in MB since `_forget_peak`."""
    lines = Path(f"/proc/{node.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) >> 10


def _forget_peak(node: NodeProcess) -> None:
    Path(f"/proc/{node.pid}/clear_refs").write_text("5")


@contextmanager
def _nobody(node: NodeProcess) -> Iterator[None]:
    del node
    yield


def _held(data: bytes, count: int) -> Attack:
    """Connections that send ``data`` once, and then neither send nor read."""

    @contextmanager
    def attack(node: NodeProcess) -> Iterator[None]:
        with ExitStack() as stack:
            for _ in range(count):
                client = stack.enter_context(_connect(node))
                client.setblocking(False)
                try:
                    client.send(data)
                except BlockingIOError:
                    continue
            yield

    return attack


def _sent(data: bytes, threads: int) -> Attack:
    """Connections that send ``data`` again and again, and read the responses."""

    @contextmanager
    def attack(node: NodeProcess) -> Iterator[None]:
        over = threading.Event()

        def work() -> None:
            with _connect(node) as client:
                while not over.is_set():
                    client.sendall(data)
                    _answer(client)

        crew = [threading.Thread(target=work) for _ in range(threads)]
        for one in crew:
            one.start()
        try:
            yield
        finally:
            over.set()
            for one in crew:
                one.join()

    return attack


def _once(name: str, entries: int) -> Attack:
    """One request with so many entries; the client reads the response and disconnects."""

    @contextmanager
    def attack(node: NodeProcess) -> Iterator[None]:
        asked = hostile_request(name, entries, "t")
        data = b"".join(request(asked.message, asked.version, "me")(7))

        def work() -> None:
            with _connect(node) as client, suppress(OSError):
                client.settimeout(4 * _SECONDS)
                client.sendall(data)
                _answer(client)

        one = threading.Thread(target=work)
        one.start()
        try:
            yield
        finally:
            one.join()

    return attack


def _attacks() -> dict[str, Attack]:
    found = dict(_ATTACKS)
    for name in hostile_names():
        if name.endswith("different"):
            found[f"{name.removesuffix(' different')}, {_TAKEN}"] = _once(name, _TAKEN)
            found[f"{name.removesuffix(' different')}, {_MILLION}"] = _once(name, _MILLION)
    return found


def _bomb(size: int) -> bytes:
    packed = batch(records=bytes(compress(Codec.ZSTD, record(0, b"k", bytes(size)))), attributes=Codec.ZSTD, count=1)
    part = ProduceRequestPartition(index=0, records=packed)
    topics = [ProduceRequestTopic(name="t", partition_data=[part])]
    return b"".join(request(ProduceRequest(acks=-1, timeout_ms=1_000, topic_data=topics), 9, "me")(7))


def _fetch() -> bytes:
    part = FetchRequestPartition(partition=0, fetch_offset=0, partition_max_bytes=50 << 20)
    topics = [FetchRequestTopic(topic="t", partitions=[part])]
    return b"".join(request(FetchRequest(max_wait_ms=500, min_bytes=1, max_bytes=50 << 20, topics=topics), 11, "me")(8))


_ATTACKS: dict[str, Attack] = {
    "nobody else": _nobody,
    "300 claims of 100 MB": _held(_CLAIM, 300),
    "300 halves of a frame": _held(_CLAIM + bytes(2 << 20), 300),
    "50 unread fetches": _held(_fetch(), 50),
    "bombs of 200 MB": _sent(_bomb(200 << 20), 4),
    "bombs of 30 MB": _sent(_bomb(30 << 20), 4),
}

if __name__ == "__main__":
    sys.exit(main())
