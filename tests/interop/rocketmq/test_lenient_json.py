"""JSON that is not quite JSON, asked of a real broker: the rows that our front is held to are what it does."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import BinaryIO

import pytest

from penstock import Producer
from tests.eventually import comes_to
from tests.interop.peers.rocketmq_fixtures import RocketMQ
from tests.rocketmq_json import PREPARED, ROWS, Answer, Row
from tools.peers import rocketmq

pytestmark = pytest.mark.interop

AT_ONCE = 8


@contextmanager
def connected(port: int) -> Iterator[tuple[socket.socket, BinaryIO]]:
    with socket.create_connection(("127.0.0.1", port), timeout=30) as end, end.makefile("rb") as stream:
        yield end, stream


def next_answer(stream: BinaryIO) -> Answer | None:
    """None where the broker hangs up. What it tells by itself is passed over."""
    while len(sizes := stream.read(8)) == 8:
        rest = stream.read(int.from_bytes(sizes[:4], "big") - 4)
        size = int.from_bytes(sizes[5:], "big")
        answer = Answer(json.loads(rest[:size]), rest[size:])
        if answer.head["flag"] & 1:
            return answer
    return None


def answered(port: int, row: Row) -> object:
    answers = []
    with connected(port) as (end, stream):
        for frame in row.frames:
            end.sendall(frame)
            answers.append(next_answer(stream))
    return row.read(answers)


def test_real_brokers_take_and_refuse_what_the_rows_say(rocketmq_peer: RocketMQ) -> None:
    cluster = rocketmq_peer(rocketmq.NEWEST)
    for topic in PREPARED:
        cluster.create_topic(topic, 4)
    with Producer(f"rocketmq://{cluster.address}") as producer:
        for number, topic in enumerate(PREPARED):
            producer.send(topic, b"x", partition=3).result(30)
            # Brokers put what they have acknowledged into a queue a moment later.
            comes_to(lambda: sum(end for name in PREPARED for _, end in cluster.ends(name).values()), number + 1, 60)
    port = cluster.broker.port
    with ThreadPoolExecutor(AT_ONCE) as several:
        found = list(several.map(lambda row: answered(port, row), ROWS))
    different = [(row.title, said, row.wanted) for row, said in zip(ROWS, found, strict=True) if said != row.wanted]
    assert not different
