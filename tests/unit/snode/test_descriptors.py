"""A node with fewer file descriptors than clients want serves those it has, and says so in a line, not in thousands."""

import asyncio
import logging
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.net.loops import connections_for, tell_of_accept_once
from penstock.protocols.kafka.wire.framing import request
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest

ASKED = b"".join(request(ApiVersionsRequest(), 0, "canary")(7))


def test_connections_leave_descriptors_for_the_log(monkeypatch: pytest.MonkeyPatch) -> None:
    resource = pytest.importorskip("resource")
    for limit, listeners in ((600, 1), (1_024, 2), (20_000, 2)):
        monkeypatch.setattr(resource, "getrlimit", lambda which, limit=limit: (limit, limit))
        most, backlog = connections_for(10_000, listeners)
        assert listeners * (most + backlog) <= limit - 384 + listeners
        assert most >= 1
    monkeypatch.setattr(resource, "getrlimit", lambda which: (resource.RLIM_INFINITY,) * 2)
    assert connections_for(10_000, 1)[0] == 10_000


def test_an_accept_that_fails_is_told_once_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        tell_of_accept_once(loop)
        for _ in range(1_000):
            context = {"message": "socket.accept() out of system resource", "exception": OSError(24, "Too many")}
            loop.call_exception_handler(context)
        loop.call_exception_handler({"message": "something else"})

    with caplog.at_level(logging.ERROR):
        asyncio.run(main())
    assert ["ulimit" in record.getMessage() for record in caplog.records] == [True, False]


def test_a_node_with_few_descriptors_serves_on_while_hundreds_of_clients_come(tmp_path: Path) -> None:
    pytest.importorskip("resource")
    serve = f"{sys.executable} -m penstock.cli snode --store file:{tmp_path}/log --listen kafka://127.0.0.1:0"
    command = ["/bin/sh", "-c", f"ulimit -n 480; exec {serve} --until-stdin-closes"]
    with (tmp_path / "log.txt").open("wb") as log:
        node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    assert node.stdout is not None
    try:
        ready = node.stdout.readline()
        port = int(ready.split("kafka://127.0.0.1:")[1].split()[0].rstrip(","))
        canary = socket.create_connection(("127.0.0.1", port), 20)
        assert answered(canary)
        crowd = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(300)]
        for _ in range(20):
            assert answered(canary)
        refused = sum(turned_away(each) for each in crowd[-20:])
        assert refused == 20
        for each in crowd:
            each.close()
        canary.close()
    finally:
        node.communicate("", timeout=30)
    said = (tmp_path / "log.txt").read_text()
    assert "Traceback" not in said
    assert len(said.splitlines()) < 10


def answered(client: socket.socket) -> bool:
    client.sendall(ASKED)
    size = int.from_bytes(client.recv(4, socket.MSG_WAITALL), "big")
    return len(client.recv(size, socket.MSG_WAITALL)) == size > 0


def turned_away(client: socket.socket) -> bool:
    client.settimeout(20)
    try:
        return client.recv(1) == b""
    except ConnectionError:
        return True
