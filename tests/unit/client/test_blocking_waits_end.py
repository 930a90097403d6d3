"""close() of a client over blocking sockets ends what waits in another thread, or in the one a signal interrupts."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from penstock.client import Admin, RangeReader
from penstock.client.runtime.closing import BlockingCalls
from penstock.errors import Closed, ConnectionLost
from penstock.model import Partition
from penstock.net.connecting import Stop
from tests.unit.client.test_what_waits_ends import GRACE_S, HOUR_S, started

HOUR_MS = 3_600_000


class Silent:
    """Takes connections, hears the first words, and never says one."""

    def __init__(self) -> None:
        self._server = socket.create_server(("127.0.0.1", 0))
        self._server.settimeout(GRACE_S)
        self.port = self._server.getsockname()[1]
        self._taken: list[socket.socket] = []

    def has_heard(self) -> None:
        taken, _ = self._server.accept()
        self._taken.append(taken)
        assert taken.recv(1)

    def close(self) -> None:
        for each in (self._server, *self._taken):
            each.close()


@pytest.fixture
def silent() -> Iterator[Silent]:
    with contextlib.closing(Silent()) as server:
        yield server


def patient(kind: type[Admin] | type[RangeReader], protocol: str, port: int, **more: int | bool) -> Admin | RangeReader:
    return kind(
        f"{protocol}://127.0.0.1:{port}",
        connect_timeout_ms=HOUR_MS,
        request_timeout_ms=HOUR_MS,
        api_timeout_ms=HOUR_MS,
        first_contact_timeout_ms=HOUR_MS,
        **more,
    )


@pytest.mark.parametrize("protocol", ["kafka", "tubemq"])
@pytest.mark.parametrize("kind", [Admin, RangeReader])
def test_another_thread_ends_a_wait_for_an_answer(
    silent: Silent, kind: type[Admin] | type[RangeReader], protocol: str
) -> None:
    client = patient(kind, protocol, silent.port)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.topics)
        silent.has_heard()
        client.close()
        with pytest.raises(Closed, match=r"was closed while this waited\. The request may have been carried out"):
            waiting.result(GRACE_S)
    client.close()
    with pytest.raises(Closed, match="is closed"):
        client.topics()
    assert "closed" in repr(client)


def test_another_thread_ends_the_first_words_of_tls(silent: Silent) -> None:
    client = patient(Admin, "kafka", silent.port, tls=True)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(client.topics)
        silent.has_heard()
        client.close()
        assert isinstance(waiting.exception(GRACE_S), Closed)


def test_another_thread_ends_an_attempt_to_connect() -> None:
    with contextlib.ExitStack() as held:
        full = held.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        for _ in range(2):  # no more are taken in
            waits = held.enter_context(socket.socket())
            waits.setblocking(False)
            waits.connect_ex(full.getsockname())
        client = patient(Admin, "kafka", full.getsockname()[1])
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.topics)
            while not client._calls.stop._sockets:
                pass
            client.close()
            assert isinstance(waiting.exception(GRACE_S), Closed)


def test_another_thread_ends_a_pause_between_attempts() -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        backoffs = {"reconnect_backoff_ms": HOUR_MS, "reconnect_backoff_max_ms": HOUR_MS}
        client = patient(Admin, "kafka", nobody.getsockname()[1], **backoffs, retry_backoff_max_ms=HOUR_MS)
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(client.topics)
            while not waiting.done() and not client._calls._under_way:
                pass
            client.close()
            assert isinstance(waiting.exception(GRACE_S), Closed)


def test_a_read_ends_by_closed_and_not_as_if_that_were_all(silent: Silent) -> None:
    reader = patient(RangeReader, "kafka", silent.port)
    assert isinstance(reader, RangeReader)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lambda: list(reader.read(Partition("t", 0))))
        silent.has_heard()
        reader.close()
        assert isinstance(waiting.exception(GRACE_S), Closed)


SIGNAL = """
import os, signal, socket, sys, threading
from penstock import Admin, Closed, RangeReader
from tests.unit.client.test_blocking_waits_end import Silent, patient
silent = Silent()
client = patient({kind}, "kafka", silent.port)

def when_it_waits():
    silent.has_heard()
    os.kill(os.getpid(), signal.SIGTERM)

def stop(*_):
    client.close()
    {more}

signal.signal(signal.SIGTERM, stop)
threading.Thread(target=when_it_waits).start()
try:
    client.topics()
except Closed:
    print("ended")
finally:
    assert not client._calls._last, "it hung up"
    silent.close()
"""


@pytest.mark.parametrize("kind", ["Admin", "RangeReader"])
def test_a_signals_handler_ends_a_wait(kind: str) -> None:
    done = started(SIGNAL.format(kind=kind, more="pass"))
    assert (done.stdout, done.stderr, done.returncode) == ("ended\n", "", 0)
    done = started(SIGNAL.format(kind=kind, more="sys.exit(7)"))
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 7)


class Calls:
    """BlockingCalls, and how often they hung up."""

    def __init__(self, farewell: Callable[[Stop], None] = lambda _: None) -> None:
        self.hung_up = 0
        self._farewell = farewell
        self.calls = BlockingCalls("thing", self._hang_up)

    async def _hang_up(self) -> None:
        self.hung_up += 1
        self._farewell(self.calls.stop)


async def ask(work: Callable[[], object] = lambda: None) -> object:
    return work()


def test_whoever_is_last_hangs_up_and_only_once() -> None:
    idle = Calls()
    idle.calls.close()
    idle.calls.close()
    assert (idle.hung_up, idle.calls.stop.said) == (1, False)
    busy = Calls()
    with pytest.raises(Closed, match="closed while this waited"):
        busy.calls.run(ask(busy.calls.close))  # a call that is through, and yet may have made do with less
    assert (busy.hung_up, busy.calls.stop.said) == (1, True)
    broken = Calls()

    def break_down() -> None:
        broken.calls.close()
        raise ConnectionLost("it was shut down")

    with pytest.raises(Closed):
        broken.calls.run(ask(break_down))
    assert broken.hung_up == 1


def test_a_second_close_ends_the_farewell_of_the_first() -> None:
    parting = threading.Event()

    def farewell(stop: Stop) -> None:
        parting.set()
        stop.pause(HOUR_S)

    calls = Calls(farewell)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(calls.calls.close)
        assert parting.wait(GRACE_S)
        calls.calls.close()
        first.result(GRACE_S)
    assert calls.hung_up == 1


def test_a_stop_ends_pauses_that_begin_before_and_after() -> None:
    stop = Stop()
    with ThreadPoolExecutor(2) as pool:
        pauses = [pool.submit(stop.pause, HOUR_S) for _ in range(2)]
        stop.say()
        assert [type(each.exception(GRACE_S)) for each in pauses] == [Closed, Closed]
    with socket.socket() as late, pytest.raises(Closed):
        stop.hold(late)
