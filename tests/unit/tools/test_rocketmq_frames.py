"""What RocketMQ's servers answer is read as they write it, without a server."""

from __future__ import annotations

import json
import socket
import struct
import threading

import pytest

from tools.peers.rocketmq_clients import Mail
from tools.peers.rocketmq_frames import Answer, agreed


def test_numbers_as_keys_are_read_as_text() -> None:
    body = b'{"offsetTable":{"one@readers":{0:3,12:4},"two@readers":{-1:5}}}'
    assert Answer(0, "", {}, body).table() == {
        "offsetTable": {"one@readers": {"0": 3, "12": 4}, "two@readers": {"-1": 5}}
    }


def test_a_refusal_has_the_servers_words() -> None:
    header = json.dumps({"code": 17, "remark": "no such topic", "opaque": 1, "flag": 1}).encode()
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def answer() -> None:
            connection, _ = listener.accept()
            with connection:
                size = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))[0]
                connection.recv(size, socket.MSG_WAITALL)
                connection.sendall(struct.pack(">ii", 4 + len(header), len(header)) + header)

        server = threading.Thread(target=answer)
        server.start()
        with pytest.raises(RuntimeError, match="no such topic"):
            agreed(listener.getsockname()[1], 105, {"topic": "nowhere"})
        server.join()


def test_a_message_is_one_line_for_the_driver() -> None:
    line = Mail("flow", [b"\n", b"2"], tags="A", delay=1, queue=("broker-1", 3)).line()
    assert line.count("\n") == 1
    assert json.loads(line) == {
        "topic": "flow",
        "bodies": ["Cg==", "Mg=="],
        "how": "sync",
        "flag": 0,
        "tags": "A",
        "delay": 1,
        "broker": "broker-1",
        "queue": 3,
    }
