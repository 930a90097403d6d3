"""A server that comes and goes, with a small one in place of Java's: what start, stop, kill and freeze leave behind."""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest

from tests.eventually import comes_to
from tools.peers import jvm
from tools.peers.java_server import JavaServer, start_together
from tools.peers.maven import Unavailable

SERVES = """
import signal, socket, sys
signal.signal(signal.SIGTERM, lambda *_: (print("flushed", flush=True), sys.exit()))
listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
print("listens", flush=True)
while True:
    listener.accept()[0].close()
"""


def server(home: Path, *, name: str = "small", code: str = SERVES) -> JavaServer:
    (port,) = jvm.free_ports(1)
    line = [sys.executable, "-c", code, str(port)]
    return JavaServer(name=name, home=home, line=line, ready=connecting(port), port=port)


def connecting(port: int) -> Callable[[], None]:
    return lambda: socket.create_connection(("127.0.0.1", port), timeout=1.0).close()


@contextmanager
def ended(*servers: JavaServer) -> Iterator[None]:
    try:
        yield
    finally:
        for each in servers:
            each.kill()


def test_one_that_is_stopped_may_flush_and_one_that_is_killed_may_not(tmp_path: Path) -> None:
    it = server(tmp_path)
    with it:
        first = it.pid
        it.kill()
        assert not it.runs
        with pytest.raises(OSError):
            it.ready()
        it.start()
        assert it.pid != first
        it.ready()
        it.stop()
        assert it.log.read_text().split() == ["listens", "listens", "flushed"]
        it.stop()  # nothing to do, which is no mistake
        it.kill()
    with pytest.raises(RuntimeError, match=r"small in .* does not run"):
        it.freeze()


def test_a_frozen_one_is_silent_until_it_thaws_and_hears_its_stop_at_once(tmp_path: Path) -> None:
    with server(tmp_path) as it:
        it.freeze()
        comes_to(psutil.Process(it.pid).status, psutil.STATUS_STOPPED)
        with socket.create_connection((it.host, it.port), timeout=0.05) as connection, pytest.raises(TimeoutError):
            connection.recv(1)
        it.thaw()
        with socket.create_connection((it.host, it.port), timeout=30) as connection:
            assert connection.recv(1) == b""
        it.freeze()
        it.stop()
        assert it.log.read_text().split()[-1] == "flushed"


def test_one_that_ends_instead_of_serving_shows_its_last_words(tmp_path: Path) -> None:
    it = server(tmp_path, code="import sys; sys.exit('no memory')")
    with pytest.raises(Unavailable, match=r"small did not get ready \(it ended with 1\)[\s\S]*no memory"):
        it.start()
    assert not it.runs


def test_several_start_side_by_side(tmp_path: Path) -> None:
    several = [server(tmp_path, name=name) for name in ("one", "two")]
    with ended(*several):
        start_together(several)
        for each in several:
            each.ready()
        assert several[0].pid != several[1].pid
    assert not any(each.runs for each in several)


def test_free_ports_stand_in_a_row() -> None:
    ports = jvm.free_ports(4)
    assert list(ports) == list(range(ports[0], ports[0] + 4))
    assert ports[-1] < 32_000
