"""SIGKILL under TubeMQ producers and consumers: what was acknowledged or committed is there, at its offset."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import pytest

from penstock.interfaces.framing import Frame
from penstock.protocols.tubemq.wire.messages import (
    CommitOffsetRequestC2B,
    GetMessageRequestC2B,
    RegisterRequestC2B,
    SendMessageRequestP2B,
)
from penstock.protocols.tubemq.wire.protobuf import Message
from penstock.protocols.tubemq.wire.rpc import (
    COMMIT_OFFSET,
    GET_MESSAGE,
    REGISTER_PARTITION,
    SEND_MESSAGE,
    Method,
    TubeFraming,
    read_answer,
    request,
)
from penstock.testing import NodeProcess
from tests.chaos.plain_sockets import Line, Spoken, free_port, killed_under_producers, values

Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


def framing() -> TubeFraming:
    return TubeFraming(answers=True)


def sending(number: int) -> bytes:
    message = SendMessageRequestP2B(
        client_id="p", topic_name="t", partition_id=0, data=b"%d" % number, flag=0, check_sum=-1, sent_addr=0
    )
    return b"".join(request(SEND_MESSAGE, message, timeout_ms=10_000)(number))


def offset(frame: Frame) -> int:
    answer = read_answer(SEND_MESSAGE, frame)
    assert answer.success, answer.err_msg
    return answer.append_offset // 28


@pytest.mark.parametrize("seed", range(3))
def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    port = free_port()
    with NodeProcess(tmp_path / "store", arguments=("--listen", f"tubemq://127.0.0.1:{port}")) as node:
        killed_under_producers(node, port, Spoken(framing, sending, offset), seed)
        commits_survive(node, port, len(list(values(node, "t"))))


def commits_survive(node: NodeProcess, port: int, total: int) -> None:
    """Read and confirm batches, kill the node after each; every time reading goes on behind what was confirmed."""
    known = 0
    while known < total:
        with closing(Line(port, framing())) as line:
            who: dict[str, Any] = {"client_id": "c", "group_name": "g", "topic_name": "t", "partition_id": 0}
            booked = called(line, REGISTER_PARTITION, RegisterRequestC2B(op_type=31, read_status=0, **who))
            assert booked.curr_offset == known * 28
            got = called(line, GET_MESSAGE, GetMessageRequestC2B(**who))
            assert got.curr_offset == known * 28
            known += len(got.messages)
            assert called(line, COMMIT_OFFSET, CommitOffsetRequestC2B(**who)).curr_offset == known * 28
        node.kill()
        node.start()


def called(line: Line, method: Method[Q, A], message: Q) -> A:
    line.send(b"".join(request(method, message, timeout_ms=10_000)(1)))
    return read_answer(method, line.receive())
