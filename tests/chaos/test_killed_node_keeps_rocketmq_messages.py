"""SIGKILL under RocketMQ producers: what was acknowledged is there, at its offset; what waited comes all the same."""

from __future__ import annotations

import os
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Admin, RangeReader
from penstock.model import LogRange, Offset, OffsetSpec, Partition
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.framing import RocketFraming
from penstock.protocols.rocketmq.methods import END_TRANSACTION, SEND_MESSAGE_V2
from penstock.protocols.rocketmq.records.ids import parse_offset_id
from penstock.protocols.rocketmq.records.properties import format_properties
from penstock.protocols.rocketmq.rpc import read_answer, request
from penstock.seams import NewTopic
from penstock.seams.framing import Frame
from penstock.testing import NodeProcess
from tests.eventually import comes_to

PRODUCERS = 3
AT_ONCE = 50
MESSAGES = 2_000
SEEDS = int(os.environ.get("PENSTOCK_KILLS", "3"))
HALF = format_properties([("TRAN_MSG", "true"), ("PGROUP", "p")])


class Line:
    """A plain socket that speaks RocketMQ's remoting protocol."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self._stream = self._socket.makefile("rb")
        self._framing = RocketFraming(answers=True)

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

    def put(self, body: bytes, **more: Any) -> m.Sent:
        """One message, acknowledged."""
        self.send(sending(body, 1, **more))
        return read_answer(SEND_MESSAGE_V2, self.receive()).header


def sending(body: bytes, number: int, **more: Any) -> bytes:
    fields = {"topic": "t", "queue_id": 0, "sys_flag": 0, **more}
    header = m.SendMessage(producer_group="p", born_timestamp=1_700_000_000_000, **fields)
    return b"".join(request(SEND_MESSAGE_V2, header, body)(number))


class Producer:
    """Sends its own numbers, many at once, until all are acknowledged; again after a broken connection."""

    def __init__(self, number: int, port: int) -> None:
        self.numbers = range(number, MESSAGES, PRODUCERS)
        self.acknowledged: dict[int, int] = {}
        self._port = port

    def run(self) -> None:
        while left := [number for number in self.numbers if number not in self.acknowledged]:
            try:
                with closing(Line(self._port)) as line:
                    for at in range(0, len(left), AT_ONCE):
                        self._send(line, left[at : at + AT_ONCE])
            except OSError:
                continue

    def _send(self, line: Line, numbers: list[int]) -> None:
        line.send(b"".join(sending(b"%d" % number, number) for number in numbers))
        for _ in numbers:
            frame = line.receive()
            self.acknowledged[frame.correlation] = read_answer(SEND_MESSAGE_V2, frame).header.queue_offset


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    dice = random.Random(seed)
    port = _free_port()
    with NodeProcess(tmp_path / "store", arguments=("--listen", f"rocketmq://127.0.0.1:{port}")) as node:
        with Admin(node.address) as admin:
            admin.create_topics([NewTopic("t", 1)])
        producers = [Producer(number, port) for number in range(PRODUCERS)]
        threads = [threading.Thread(target=producer.run) for producer in producers]
        for thread in threads:
            thread.start()
        for share in sorted(dice.sample(range(1, 10), 2)):
            while sum(len(producer.acknowledged) for producer in producers) < MESSAGES * share // 10:
                threads[0].join(0.001)
            node.kill()
            node.start()
        for thread in threads:
            thread.join()
        stored = list(_stored(node.address, "t"))
        for producer in producers:
            assert {number: stored[offset] for number, offset in producer.acknowledged.items()} == {
                number: b"%d" % number for number in producer.numbers
            }


def test_what_waited_is_delivered_and_decided_after_a_kill(tmp_path: Path) -> None:
    port = _free_port()
    with NodeProcess(tmp_path / "store", arguments=("--listen", f"rocketmq://127.0.0.1:{port}")) as node:
        with Admin(node.address) as admin:
            admin.create_topics([NewTopic("later", 1), NewTopic("t", 1)])
        with closing(Line(port)) as line:
            line.put(b"delayed", topic="later", properties="DELAY\x011")
            half = line.put(b"half", properties=HALF, sys_flag=4)
        node.kill()
        node.start()
        header = m.EndTransaction(
            producer_group="p",
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=parse_offset_id(half.msg_id)[1],
            commit_or_rollback=m.Decision.COMMIT,
            msg_id="U",
        )
        with closing(Line(port)) as line:
            line.send(b"".join(request(END_TRANSACTION, header)(1)))
            read_answer(END_TRANSACTION, line.receive())
        node.kill()
        node.start()
        assert list(_stored(node.address, "t")) == [b"half"]
        comes_to(lambda: [value or b"" for value in _stored(node.address, "later")], [b"delayed"], 30)


def _stored(address: str, topic: str) -> Iterator[bytes | None]:
    with RangeReader(address) as reader:
        place = Partition(topic, 0)
        end = reader.offsets({place: OffsetSpec(name=Offset.LATEST)})[place].offset
        for batch in reader.read(LogRange.of(place, 0, end)):
            for message in batch:
                yield message.value


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
