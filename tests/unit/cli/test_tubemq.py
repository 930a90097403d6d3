"""Every verb with a ``tubemq://`` address: partitions belong to nodes, and their offsets are 28 apart."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Broker
from tests.unit.cli.running import penstock

LINES = b"one\ntwo\nthree\n"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with Broker(listen="tubemq://127.0.0.1:0") as running:
        yield running.url("tubemq")


def test_topics_are_made_grown_shown_and_deleted(address: str) -> None:
    assert penstock("topics", "create", address, "made", "-p", "2").code == 0
    assert ["made", "2", "not internal"] in penstock("topics", "list", address).rows
    assert penstock("topics", "grow", address, "made", "-p", "3").code == 0
    described = penstock("topics", "describe", address, "made", "--json").objects
    assert [row["partition"] for row in described] == [0, 1, 2]
    assert {(row["node"], row["leader"], row["start"], row["end"]) for row in described} == {("1", "1", 0, 0)}
    assert penstock("topics", "delete", address, "made").code == 0
    assert "made" not in {row[0] for row in penstock("topics", "list", address).rows}


def test_what_is_produced_is_consumed(address: str) -> None:
    penstock("topics", "create", address, "lines")
    sent = penstock("produce", f"{address}/lines", given=LINES)
    assert sent.stderr == "3 records acknowledged\n"
    assert penstock("consume", f"{address}/lines", "--until-end").stdout == LINES
    shown = penstock("consume", f"{address}/lines", "--until-end", "--format", "json").objects
    assert [(row["node"], row["partition"], row["offset"], row["value"]) for row in shown] == [
        ("1", 0, 0, "one"),
        ("1", 0, 28, "two"),
        ("1", 0, 56, "three"),
    ]


def test_json_lines_go_in_as_they_came_out(address: str) -> None:
    penstock("topics", "create", address, "from", "to")
    given = b'{"key": "k", "value": "v", "headers": {"tubemq.filter": "blue", "n": "1"}, "timestamp": 1700000000123}\n'
    penstock("produce", f"{address}/from", "--format", "json", given=given)
    out = penstock("consume", f"{address}/from", "--until-end", "--format", "json")
    assert penstock("produce", f"{address}/to", "--format", "json", given=out.stdout).code == 0
    (first,), (second,) = out.objects, penstock("consume", f"{address}/to", "--until-end", "--format", "json").objects
    assert {**first, "topic": ""} == {**second, "topic": ""}
    assert (first["key"], first["timestamp"]) == ("k", 1_700_000_000_123)


def test_a_filter_is_an_option_of_the_address(address: str) -> None:
    penstock("topics", "create", address, "coloured")
    given = b"".join(
        b'{"value": "%d", "headers": {"tubemq.filter": "%s"}}\n' % (i, b"red" if i % 2 else b"blue") for i in range(6)
    )
    penstock("produce", f"{address}/coloured", "--format", "json", given=given)
    read = penstock("consume", f"{address}/coloured?filters=red", "--until-end")
    assert read.stdout == b"1\n3\n5\n"


def test_a_group_s_lag_is_told_in_offsets_and_in_seconds(address: str) -> None:
    penstock("topics", "create", address, "behind", "-p", "2")
    penstock("produce", f"{address}/behind", given=LINES)
    done = penstock("consume", f"{address}/behind", "-g", "readers", "--until-end", "-o", "heartbeat_interval_ms=200")
    assert done.stdout == LINES
    assert "readers" in {row[0] for row in penstock("groups", "list", address).rows}
    rows = penstock("groups", "describe", address, "readers", "--json").objects
    assert sum(int(str(row["end"])) for row in rows) == 84
    assert {(row["lag"], row["lag_seconds"]) for row in rows} == {(0, 0.0)}
    penstock("produce", f"{address}/behind", given=b"late\n")
    rows = penstock("groups", "describe", address, "readers", "--json").objects
    assert sorted(int(str(row["lag"])) for row in rows) == [0, 28]
    assert all(0 <= float(str(row["lag_seconds"])) < 60 for row in rows)
    assert penstock("groups", "delete", address, "readers").code == 0
    assert "readers" not in {row[0] for row in penstock("groups", "list", address).rows}


def test_doctor_finds_the_log(address: str) -> None:
    penstock("topics", "create", address, "sound")
    assert ["log", "ok"] in [row[:2] for row in penstock("doctor", f"{address}/sound").rows]
    ran = penstock("doctor", f"{address}/absent")
    assert ran.code == 1
    assert f"`penstock topics create {address} absent`" in ran.stdout.decode()
