"""Injected faults as clients of TubeMQ meet them: any single loss, delay or passing refusal costs no message."""

from __future__ import annotations

import asyncio
import urllib.error
import urllib.request
from collections.abc import Iterator

import pytest

from penstock.client import Consumer, Producer
from penstock.errors import UsageError
from penstock.interfaces import Buffers, Frame, Pieces, joined
from penstock.protocols.tubemq.errors import error_of, rows
from penstock.protocols.tubemq.server.session import TABLE, TubeWording
from penstock.protocols.tubemq.wire.rpc import (
    METHODS,
    Standby,
    Stopping,
    TubeFraming,
    Unready,
    read_answer,
    request_around,
)
from penstock.testing import Broker, Faults

QUICK = {
    "retry_backoff_ms": 1,
    "retry_backoff_max_ms": 5,
    "reconnect_backoff_ms": 1,
    "reconnect_backoff_max_ms": 5,
    "heartbeat_interval_ms": 20,
    "heartbeat_after_fail_ms": 20,
    "register_backoff_ms": 5,
}
THROWN = {
    "StandbyException": Standby,
    "ServerNotReadyException": Unready,
    "ServiceStoppingException": Stopping,
}


@pytest.fixture
def node() -> Iterator[Broker]:
    with Broker(listen="tubemq://127.0.0.1:0") as broker:
        broker.create_topic("flow")
        with Producer(broker.url("tubemq")) as producer:
            producer.send("flow", b"1").result(30)
        yield broker


def unframed(wire: Pieces, *, answers: bool) -> Frame:
    framing, view = TubeFraming(answers=answers), memoryview(joined(wire))
    while True:
        need = framing.need()
        found, view = framing.feed(view[:need]), view[need:]
        if found is not None:
            return found


async def never(frame: Frame) -> Buffers:
    raise AssertionError("a refused request is not served")


@pytest.mark.parametrize("number", sorted(TABLE))
def test_every_method_can_be_refused_with_every_error(number: int) -> None:
    method, wording = METHODS[number], TubeWording()
    frame = unframed(request_around(method, [b""], timeout_ms=1_000)(7), answers=False)
    assert wording.api_of(frame) == method.name
    for name in [row.name for row in rows() if row.name != "SUCCESS"] + [*THROWN]:
        wording.check(method.name, name)
        answered = asyncio.run(wording.refusal(frame, name, never))
        assert answered is not None
        found = unframed(answered, answers=True)
        assert found.correlation == 7
        if name in THROWN:
            with pytest.raises(THROWN[name]):
                read_answer(method, found)
        else:
            said = read_answer(method, found)
            assert error_of(said.err_code).name == name
            assert "injected" in said.err_msg
            assert not getattr(said, "success", False)


def read_one(node: Broker) -> None:
    with Consumer(f"{node.url('tubemq')}/flow", group="readers", **QUICK) as consumer:
        batch = consumer.poll(30)
        assert [record.value for record in batch] == [b"1"]
        consumer.commit(batch)


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("api", ["consumer register", "consumer heartbeat", "register partition", "get message"])
def test_a_member_finds_its_way_past_any_single_loss(node: Broker, api: str, moment: str) -> None:
    faults = node.faults_of("tubemq")
    faults.drop(api, moment=moment)  # type: ignore[arg-type]
    read_one(node)
    assert faults.seen(api) >= 2


@pytest.mark.parametrize(
    ("api", "error"),
    [
        ("consumer register", "StandbyException"),
        ("consumer register", "ServerNotReadyException"),
        ("consumer heartbeat", "HB_NO_NODE"),
        ("register partition", "PARTITION_OCCUPIED"),
        ("register partition", "ServerNotReadyException"),
        ("get message", "NOT_FOUND"),
        ("get message", "SERVICE_UNAVAILABLE"),
    ],
)
def test_a_member_finds_its_way_past_any_passing_error(node: Broker, api: str, error: str) -> None:
    faults = node.faults_of("tubemq")
    faults.error(api, error)
    read_one(node)
    assert faults.seen(api) >= 2


@pytest.mark.parametrize("error", ["SERVICE_UNAVAILABLE", "SERVER_RECEIVE_OVERFLOW", "ServerNotReadyException"])
def test_a_producer_tries_again_after_a_passing_error(node: Broker, error: str) -> None:
    faults = node.faults_of("tubemq")
    before = faults.seen("send message")
    faults.error("send message", error, times=2)
    with Producer(node.url("tubemq"), retry_backoff_ms=1, retry_backoff_max_ms=5) as producer:
        assert producer.send("flow", b"2").result(30).offset == 28
    assert faults.seen("send message") == before + 3


def test_administration_on_the_same_port_can_be_cut_off_but_has_no_name(node: Broker) -> None:
    faults: Faults = node.faults_of("tubemq")
    page = f"http://{node.url('tubemq').removeprefix('tubemq://')}/webapi.htm?method=admin_query_topic_info"
    with urllib.request.urlopen(page, timeout=10) as answer:
        assert b'"flow"' in answer.read()
    faults.error("", "FORBIDDEN")
    with pytest.raises((urllib.error.URLError, OSError)), urllib.request.urlopen(page, timeout=10):
        pass
    with urllib.request.urlopen(page, timeout=10) as answer:
        assert b'"flow"' in answer.read()


def test_what_tubemq_has_no_name_for_is_refused_in_the_test(node: Broker) -> None:
    faults = node.faults_of("tubemq")
    with pytest.raises(UsageError, match="Did you mean 'send message'"):
        faults.drop("send messages")
    with pytest.raises(UsageError, match="Did you mean 'NOT_FOUND'"):
        faults.error("get message", "NOT_FOUNT")
    with pytest.raises(UsageError, match="SUCCESS"):
        faults.error("get message", "SUCCESS")
    assert TubeWording().api_of(Frame(1, False, memoryview(b"\xff\xff"))) == ""
