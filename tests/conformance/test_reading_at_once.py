"""A topic as one table, of every log: by offsets everywhere, by times where the log can find one."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

import penstock
from penstock.client import Producer, RangeReader
from penstock.errors import PenstockError
from tests.conformance.conftest import LOGS, NO_ROW_OFFSETS, PEERS, Log

ALL = [*sorted(LOGS | NO_ROW_OFFSETS), *(pytest.param(name, marks=pytest.mark.interop) for name in PEERS)]


def filled(log: Log) -> str:
    topic = log.topic(3)
    with Producer(log.address) as producer:
        for number in range(300):
            producer.send(topic, b"%d" % number, partition=number % 3, timestamp_ms=1_700_000_000_000 + number)
    return topic


@pytest.mark.parametrize("log", ALL, indirect=True)
def test_a_topic_is_read_whole_and_from_and_to_offsets(log: Log) -> None:
    topic = filled(log)
    table = penstock.read(log.at(topic))
    assert sorted(int(value) for value in table["value"].to_pylist()) == list(range(300))
    with RangeReader(log.address) as reader:
        ends = reader.end_offsets(log.partitions(topic))
    half = {partition: (end // 2) // (end // 100) * (end // 100) for partition, end in ends.items()}
    before, after = (penstock.read(log.at(topic), ["value"], **bound) for bound in ({"end": half}, {"start": half}))  # type: ignore[arg-type]
    assert (before.num_rows, after.num_rows) == (150, 150)
    assert sorted(before["value"].to_pylist() + after["value"].to_pylist()) == sorted(table["value"].to_pylist())
    assert penstock.read(log.at(topic), start=ends).num_rows == 0


@pytest.mark.parametrize("log", ALL, indirect=True)
def test_a_time_is_a_bound_or_a_clear_error(log: Log, request: pytest.FixtureRequest) -> None:
    topic = filled(log)
    early, late = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
    if request.node.callspec.params["log"] in NO_ROW_OFFSETS:
        with pytest.raises(PenstockError, match="time"):
            penstock.read(log.at(topic), start=early)
        return
    assert penstock.read(log.at(topic), start=early, end=late).num_rows == 300
    assert penstock.read(log.at(topic), start=late).num_rows == 0
