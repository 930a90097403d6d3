"""The files that one request or record passes through: ``python -m bench.hops_case JOB`` prints their names as JSON.

Each path is run thirty times after a warm-up, and the file of every Python function that starts meanwhile is noted.
The shortest of the thirty lists counts, so that work by timers is left out. To measure a node, it runs in this process
and its clients in another one; to measure a client, the other way round.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

__all__ = ["WAYS", "files_of"]

TIMES: Final = 30
WARM: Final = 200
SOURCE: Final = str(Path(__file__).resolve().parent.parent / "src" / "penstock") + os.sep
NOT_OURS: Final = ("testing" + os.sep,)
"""Folders whose code is between a node and its clients only in tests."""


class Files:
    """Notes the files of all functions that are called, in all threads."""

    def __init__(self) -> None:
        self._listening = False
        self._found: set[str] = set()
        threading.setprofile(self._note)
        sys.setprofile(self._note)

    def _note(self, frame: FrameType, event: str, _: object) -> None:
        if self._listening and event == "call":
            self._found.add(frame.f_code.co_filename)

    def during(self, act: Callable[[], None]) -> list[str]:
        """The package's files that ``act`` passed through."""
        self._found.clear()
        self._listening = True
        try:
            act()
        finally:
            self._listening = False
        ours = (each.removeprefix(SOURCE) for each in self._found if each.startswith(SOURCE))
        return sorted(each for each in ours if not each.startswith(NOT_OURS))


def files_of(way: str) -> list[str]:
    """The shortest list of files of that path."""
    files = Files()
    with ExitStack() as stack:
        act = WAYS[way](stack)
        for _ in range(WARM):
            act()
        return min((files.during(act) for _ in range(TIMES)), key=len)


def _send_and_wait(scheme: str) -> Callable[[ExitStack], Callable[[], None]]:
    def way(stack: ExitStack) -> Callable[[], None]:
        import penstock

        address = stack.enter_context(_node(scheme))
        with penstock.Admin(address) as admin:
            admin.create_topics([penstock.NewTopic("hops", 1)])
        producer = stack.enter_context(penstock.Producer(address))
        return lambda: producer.send("hops", b"value").result(30)  # type: ignore[func-returns-value]

    return way


def _lone_record(stack: ExitStack) -> Callable[[], None]:
    """A single record that arrives in ``poll``; librdkafka sends it, so that the sender adds no files."""
    import confluent_kafka

    import penstock

    address = stack.enter_context(_node("kafka"))
    other = confluent_kafka.Producer({"bootstrap.servers": address.partition("://")[2], "linger.ms": 0})
    other.produce("hops", b"first")
    other.flush(30)
    consumer = stack.enter_context(penstock.Consumer(f"{address}/hops", group=None, auto_offset_reset="earliest"))
    assert consumer.poll(30)

    def act() -> None:
        other.produce("hops", b"value")
        while not consumer.poll(30):
            pass

    return act


def _in_the_node(scheme: str) -> Callable[[ExitStack], Callable[[], None]]:
    def way(stack: ExitStack) -> Callable[[], None]:
        from penstock.testing import Broker

        broker = stack.enter_context(Broker(listen=[f"{scheme}://127.0.0.1:0"]))
        return stack.enter_context(_other(f"{broker.url(scheme)}"))

    return way


def _relayed(stack: ExitStack) -> Callable[[], None]:
    """A RocketMQ client's pull through a Snode in front of a broker."""
    from penstock.testing import Broker

    behind = stack.enter_context(_node("rocketmq"))
    snode = stack.enter_context(Broker(behind, listen=["rocketmq://127.0.0.1:0"]))
    return stack.enter_context(_other(snode.url("rocketmq"), reads_from=behind))


WAYS: Mapping[str, Callable[[ExitStack], Callable[[], None]]] = {
    "client: Kafka, send and wait": _send_and_wait("kafka"),
    "client: Kafka, a lone record to poll": _lone_record,
    "client: TubeMQ, send and wait": _send_and_wait("tubemq"),
    "node: Kafka, produce": _in_the_node("kafka"),
    "node: RocketMQ, send": _in_the_node("rocketmq"),
    "Snode: RocketMQ, relayed pull": _relayed,
}


@contextmanager
def _node(scheme: str) -> Iterator[str]:
    """The address of a node in another process."""
    from bench.servers import snode

    also = "" if scheme == "kafka" else scheme
    with snode("memory:", also=also) as node:
        yield f"{scheme}://127.0.0.1:{node.other_port or node.port}"


@contextmanager
def _other(address: str, reads_from: str = "") -> Iterator[Callable[[], None]]:
    """A client in another process, as a function that sends (or reads) one record per call."""
    job = json.dumps({"client": address, "sends_to": reads_from})
    with subprocess.Popen(
        [sys.executable, "-m", "bench.hops_case", job], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        asked, said = process.stdin, process.stdout

        def act() -> None:
            asked.write("\n")
            asked.flush()
            if said.readline() != "done\n":
                raise RuntimeError("the client has ended")

        try:
            yield act
        finally:
            asked.close()
            process.wait(30)


def client(address: str, sends_to: str) -> None:
    """Send one record per line of standard input to ``address``; with ``sends_to``, send it there, and read it."""
    import penstock

    with ExitStack() as stack:
        producer = stack.enter_context(penstock.Producer(sends_to or address))
        producer.send("hops", b"first").result(30)
        consumer = None
        if sends_to:
            consumer = stack.enter_context(
                penstock.Consumer(f"{address}/hops", group="hops", auto_offset_reset="earliest")
            )
        for _ in sys.stdin:
            producer.send("hops", b"value").result(30)
            while consumer is not None and not consumer.poll(30):
                pass
            print("done", flush=True)


def main(job: Mapping[str, Any]) -> None:
    """Measure one path, or be the client for one."""
    if "client" in job:
        client(job["client"], job["sends_to"])
    else:
        print(json.dumps({"files": files_of(job["way"])}), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
