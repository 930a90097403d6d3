"""What a RocketMQ client is refused by a node's own front stands in its log."""

from __future__ import annotations

import pytest

from penstock.errors import ServerError
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.rpc import GET_ROUTEINFO_BY_TOPIC
from tests.unit.rocketmq_front.kit import ANYTHING, Kit, run


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.name == "penstock.refused"]


def test_who_asked_for_what_and_why_it_was_refused(caplog: pytest.LogCaptureFixture) -> None:
    async def test(kit: Kit) -> None:
        with pytest.raises(ServerError) as refused:
            await kit.put(b"x", topic="demo", queue=99)
        (line,) = lines(caplog)
        code = refused.value.code
        assert line.startswith("rocketmq: SEND_MESSAGE_V2 of 127.0.0.1:50000 (topic demo, group p) was answered ")
        assert f"({code}): " in line
        assert kit.name not in line
        await kit.beat(producer="p")
        for _ in range(3):
            await kit.ask(GET_ROUTEINFO_BY_TOPIC, m.GetRoute(topic="none"), accept=ANYTHING)
        (line,) = lines(caplog)[1:]
        assert line.startswith(
            f"rocketmq: GET_ROUTEINFO_BY_TOPIC of client {kit.name} at 127.0.0.1:50000 (topic none) was answered "
            "TOPIC_NOT_EXIST (17): "
        )

    run(test)


def test_who_finds_nothing_to_read_is_not_told_of(caplog: pytest.LogCaptureFixture) -> None:
    async def test(kit: Kit) -> None:
        await kit.put(b"x")
        await kit.beat("demo")
        assert (await kit.pull(1)).code == 19
        assert not lines(caplog)

    run(test)
