"""``penstock snode --processes``: one address, several processes, groups that are one, nobody left behind."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RocketFraming, command_of
from penstock.protocols.rocketmq.wire.rpc import (
    GET_CONSUMER_LIST_BY_GROUP,
    HEART_BEAT,
    SEND_MESSAGE_V2,
    read_answer,
    request,
)
from penstock.testing import Broker
from tests import processes as others
from tests.chaos.plain_sockets import Line, free_port
from tests.eventually import comes_to

PATIENCE_S = 30.0
MEMBERS = 16


class Snode:
    """It runs in several processes."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        self.process = process
        self.ready = process.stdout.readline()
        self.port = int(self.ready.partition("127.0.0.1:")[2].partition(" ")[0])

    @property
    def workers(self) -> list[psutil.Process]:
        return others.below(psutil.Process(self.process.pid))

    def line(self) -> Line:
        return Line(self.port, RocketFraming(answers=True))


@contextmanager
def snode(*words: str) -> Iterator[Snode]:
    with Broker("memory:", listen=["rocketmq://127.0.0.1:0"]) as cluster:
        command = [sys.executable, "-m", "penstock.cli", "snode", "--enode", cluster.url("rocketmq")]
        listen = ["--listen", "rocketmq://127.0.0.1:0", "--until-stdin-closes", *words]
        with subprocess.Popen(
            [*command, *listen], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            watching = psutil.Process(process.pid)
            try:
                yield Snode(process)
            finally:
                others.end(watching)


def asked(line: Line, method: Any, header: object, body: object = b"") -> Any:
    """The answer."""
    line.send(b"".join(request(method, header, body)(1)))
    while command_of(frame := line.receive()).is_answer is False:
        pass  # a notice
    return read_answer(method, frame, accept=(0, 1))


def beat(line: Line, name: str) -> None:
    """A member of group g."""
    wanted = (m.SubscriptionData(topic="t", sub_string="*", sub_version=1),)
    group = m.ConsumerData(group_name="g", subscription_data_set=wanted)
    asked(line, HEART_BEAT, m.NoFields(), m.HeartbeatData(client_id=name, consumer_data_set=(group,)))


def members(line: Line) -> list[str]:
    """Who is in group g."""
    found = asked(line, GET_CONSUMER_LIST_BY_GROUP, m.OfGroup(consumer_group="g"))
    return sorted(m.read_body(m.ConsumerIds, found.body).consumer_id_list) if found.code == 0 else []


@pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="this system cannot share a port")
def test_members_at_several_processes_are_one_group_also_while_one_is_replaced() -> None:
    names = sorted(f"c{number}" for number in range(MEMBERS))
    with snode("--processes", "3") as running, ExitStack() as stack:
        assert running.ready.endswith(" processes=3\n")
        lines = [stack.enter_context(closing(running.line())) for _ in range(MEMBERS)]
        for name, line in zip(names, lines, strict=True):
            beat(line, name)
        for line in lines:
            comes_to(lambda line=line: members(line), names, PATIENCE_S)  # type: ignore[misc]
        before = [each.pid for each in running.workers]
        os.kill(before[0], signal.SIGKILL)
        comes_to(lambda: len({each.pid for each in running.workers} - set(before)), 1, PATIENCE_S)
        for _ in range(10):  # one of three of these is at the new one
            with closing(running.line()) as line:
                assert members(line) == names
                sent = m.SendMessage(
                    producer_group="p", topic="t", queue_id=0, sys_flag=0, born_timestamp=1, broker_name="penstock-1"
                )
                assert asked(line, SEND_MESSAGE_V2, sent, b"body").code == 0
        workers = running.workers
        running.process.send_signal(signal.SIGTERM)
        assert running.process.wait(PATIENCE_S) == 0
        assert [each for each in workers if each.is_running()] == []


@pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="this system cannot share a port")
def test_a_brokers_port_means_the_same_at_all_processes_also_at_one_that_took_anothers_place() -> None:
    there, missing = free_port(), free_port()
    with snode("--processes", "3", "--set", f"rocketmq_broker_ports=penstock-1={there},missing={missing}") as running:
        before = [each.pid for each in running.workers]
        os.kill(before[0], signal.SIGKILL)
        comes_to(lambda: len({each.pid for each in running.workers} - set(before)), 1, PATIENCE_S)
        sent = m.SendMessage(producer_group="p", topic="t", queue_id=0, sys_flag=0, born_timestamp=1)
        for _ in range(10):
            for port, code in ((there, 0), (missing, 14)):
                with closing(Line(port, RocketFraming(answers=True))) as line:
                    line.send(b"".join(request(SEND_MESSAGE_V2, sent, b"body")(1)))
                    assert command_of(line.receive()).code == code


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_all_processes_end_with_the_one_that_watches_them(how: signal.Signals) -> None:
    with snode("--processes", "2") as running:
        workers = running.workers
        assert len(workers) == 2
        running.process.send_signal(how)
        running.process.wait(PATIENCE_S)
        comes_to(lambda: [each for each in workers if each.is_running()], [], PATIENCE_S)


def refused(*words: str) -> str:
    """What it says instead of starting."""
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "snode", *words],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == ""
    return done.stderr


def test_processes_cannot_keep_a_log_together() -> None:
    assert "a log has one owner" in refused("--store", "memory:", "--processes", "2")


def test_processes_cannot_keep_journals_together(tmp_path: Path) -> None:
    said = refused("--enode", "rocketmq://127.0.0.1:1", "--journals", f"file:{tmp_path}", "--processes", "2")
    assert "journals" in said


@pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="this system cannot share a port")
def test_processes_cannot_have_groups_that_are_each_process_s_own() -> None:
    with Broker("memory:", listen=["rocketmq://127.0.0.1:0"]) as cluster:
        said = refused("--enode", cluster.url("rocketmq"), "--listen", "kafka://127.0.0.1:0", "--processes", "2")
    assert "several processes cannot serve kafka://" in said


@pytest.mark.skipif(not hasattr(socket, "SO_REUSEPORT"), reason="this system cannot share a port")
def test_each_process_tells_its_own_metrics_one_port_after_the_other() -> None:
    # Below those that systems give to who asks for any: two neighbours there are free until they are listened on.
    first = next(port for port in iter(lambda: random.randint(12_000, 30_000), None) if _is_free(port, port + 1))
    with snode("--processes", "2", "--metrics", f"http://127.0.0.1:{first}") as running:
        assert f"metrics=http://127.0.0.1:{first} processes=2" in running.ready
        for port in (first, first + 1):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=PATIENCE_S) as page:
                assert "penstock_" in page.read().decode()


def _is_free(*ports: int) -> bool:
    for port in ports:
        with closing(socket.socket()) as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return False
    return True


def test_a_port_that_another_snode_shares_among_its_own_processes_is_taken() -> None:
    with snode("--processes", "2") as running:
        words = ("--enode", f"rocketmq://127.0.0.1:{running.port}", "--processes", "2")
        assert "cannot listen" in refused(*words, "--listen", f"rocketmq://127.0.0.1:{running.port}")


def test_one_that_cannot_start_ends_all_and_says_why_once() -> None:
    words = ("--enode", f"rocketmq://127.0.0.1:{free_port()}", "--listen", "rocketmq://127.0.0.1:0")
    done = subprocess.run(
        [sys.executable, "-m", "penstock.cli", "snode", *words, "--processes", "2"],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 1
    assert "start them first" in done.stderr
