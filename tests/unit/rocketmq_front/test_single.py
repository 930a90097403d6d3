"""A send of one plain message is answered from its fields, as the long way would answer it, or is left to that."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ServerError
from penstock.interfaces.enode import FetchPart, fetch_one
from penstock.model import Partition
from penstock.protocols.rocketmq.server import dispatch
from penstock.protocols.rocketmq.server.log_access import send_single
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import RemotingCommand
from penstock.protocols.rocketmq.wire.messages import write_fields
from penstock.protocols.rocketmq.wire.properties import format_properties
from penstock.records.scalar_codec import Stored, stored_records
from tests.unit.rocketmq_front.kit import Kit, now_ms, run

ALL = format_properties([("KEYS", "k1"), ("TAGS", "A"), ("UNIQ_KEY", "7F00"), ("WAIT", "true"), ("text", "中文")])
CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "second queue": {"queue": 1},
    "with properties and a flag": {"properties": ALL, "flag": 7},
    "with all that Java says": {"reconsume_times": 0, "unit_mode": False, "batch": False, "broker_name": "penstock-1"},
}
LEFT: dict[str, dict[str, Any]] = {
    "no such topic": {"topic": "fresh"},
    "no such queue": {"queue": 2},
    "any queue": {"queue": -1},
    "no time of birth": {"born_timestamp": 0},
    "born an hour ago": {"born_timestamp": now_ms() - 3_600_000},
    "born in ten hours": {"born_timestamp": now_ms() + 36_000_000},
    "a negative flag": {"flag": -1},
    "a delayed one": {"properties": "DELAY\x013"},
    "half a transaction": {"sys_flag": 4, "properties": "PGROUP\x01p"},
    "a group's own topic": {"topic": "%RETRY%g"},
    "one that was tried before": {"reconsume_times": 1},
    "many properties": {"properties": "x\x01" + "y" * 9_000},
}


def command(**more: Any) -> RemotingCommand:
    fields = {"topic": "demo", "queue_id": more.pop("queue", 0), "sys_flag": 0, "born_timestamp": now_ms(), **more}
    return RemotingCommand(310, 1, fields=write_fields(m.SendMessage(producer_group="p", **fields), letters=True))


def outcome(case: dict[str, Any], born_ms: int) -> list[tuple[m.Sent | int, list[Stored]]]:
    """What is answered to the message twice, and what the log has then."""
    found: list[tuple[m.Sent | int, list[Stored]]] = []

    async def check(kit: Kit) -> None:
        for _ in range(2):
            try:
                said: m.Sent | int = await kit.put(b"body", **{"born_timestamp": born_ms, **case})
            except ServerError as error:
                said = error.code
            stored: list[Stored] = []
            for queue in range(2):
                part = FetchPart(Partition("demo", queue), 0, 1 << 20)
                stored += stored_records((await fetch_one(kit.enode, part)).read(), 0)
            found.append((said, stored))

    run(check)
    return found


@pytest.mark.lossless("two runs are compared, and what is lost differs between them")
@pytest.mark.parametrize("case", CASES)
def test_the_quick_way_does_what_the_long_one_does(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    born_ms = now_ms()
    short = outcome(CASES[case], born_ms)
    monkeypatch.setattr(dispatch, "SINGLE", -1)
    assert outcome(CASES[case], born_ms) == short


@pytest.mark.parametrize(("case", "quick"), [*((case, True) for case in CASES), *((case, False) for case in LEFT)])
@pytest.mark.near
def test_what_is_unusual_is_left_to_the_long_way(case: str, quick: bool) -> None:
    async def check(kit: Kit) -> None:
        answered = await send_single(kit.front.shared, command(**{**CASES, **LEFT}[case]), "127.0.0.1:50000")
        assert (answered is not None) is quick

    run(check)
