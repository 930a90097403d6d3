"""SIGKILL under RocketMQ producers: what was acknowledged is there, at its offset; what waited comes all the same."""

from __future__ import annotations

import os
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from penstock.client import Admin
from penstock.interfaces import NewTopic
from penstock.interfaces.framing import Frame
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RocketFraming
from penstock.protocols.rocketmq.wire.message_format import parse_offset_id
from penstock.protocols.rocketmq.wire.properties import format_properties
from penstock.protocols.rocketmq.wire.rpc import END_TRANSACTION, SEND_MESSAGE_V2, read_answer, request
from penstock.testing import NodeProcess
from tests.chaos.plain_sockets import Line, Spoken, free_port, killed_under_producers, values
from tests.eventually import comes_to

SEEDS = int(os.environ.get("PENSTOCK_KILLS", "3"))
HALF = format_properties([("TRAN_MSG", "true"), ("PGROUP", "p")])


def framing() -> RocketFraming:
    return RocketFraming(answers=True)


def sending(body: bytes, number: int, **more: Any) -> bytes:
    fields = {"topic": "t", "queue_id": 0, "sys_flag": 0, **more}
    header = m.SendMessage(producer_group="p", born_timestamp=1_700_000_000_000, **fields)
    return b"".join(request(SEND_MESSAGE_V2, header, body)(number))


def sent(frame: Frame) -> m.Sent:
    return read_answer(SEND_MESSAGE_V2, frame).header


SPOKEN = Spoken(framing, lambda number: sending(b"%d" % number, number), lambda frame: sent(frame).queue_offset)


@pytest.mark.parametrize("seed", range(SEEDS))
def test_nothing_acknowledged_is_lost(tmp_path: Path, seed: int) -> None:
    port = free_port()
    with NodeProcess(tmp_path / "store", arguments=("--listen", f"rocketmq://127.0.0.1:{port}")) as node:
        killed_under_producers(node, port, SPOKEN, seed)


def test_what_waited_is_delivered_and_decided_after_a_kill(tmp_path: Path) -> None:
    port = free_port()
    with NodeProcess(tmp_path / "store", arguments=("--listen", f"rocketmq://127.0.0.1:{port}")) as node:
        with Admin(node.address) as admin:
            admin.create_topics([NewTopic("later", 1), NewTopic("t", 1)])
        with closing(Line(port, framing())) as line:
            line.send(sending(b"delayed", 1, topic="later", properties="DELAY\x011"))
            sent(line.receive())
            line.send(sending(b"half", 2, properties=HALF, sys_flag=4))
            half = sent(line.receive())
        node.kill()
        node.start()
        header = m.EndTransaction(
            producer_group="p",
            tran_state_table_offset=half.queue_offset,
            commit_log_offset=parse_offset_id(half.msg_id)[1],
            commit_or_rollback=m.Decision.COMMIT,
            msg_id="U",
        )
        with closing(Line(port, framing())) as line:
            line.send(b"".join(request(END_TRANSACTION, header)(1)))
            read_answer(END_TRANSACTION, line.receive())
        node.kill()
        node.start()
        assert [value for _, value in values(node, "t")] == [b"half"]
        comes_to(lambda: [value or b"" for _, value in values(node, "later")], [b"delayed"], 30)
