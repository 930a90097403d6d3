"""A topic as one table, of every log: by offsets everywhere, by times where the log can find one."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pytest

import penstock
from penstock.errors import PenstockError
from tests.conformance.abilities import Ability, lacks, needs
from tests.conformance.conftest import Log
from tests.conformance.filling import fill


def numbers(table: pa.Table) -> list[int]:
    return sorted(int(value) for value in table["value"].to_pylist())


def test_a_topic_is_read_whole_and_from_and_to_offsets(log: Log) -> None:
    topic = log.topic(3)
    half = fill(log, topic, 0, 300).end
    assert numbers(penstock.read(log.at(topic))) == list(range(300))
    whole = fill(log, topic, 300, 600).end
    assert numbers(penstock.read(log.at(topic), ["value"], end=half)) == list(range(300))
    assert numbers(penstock.read(log.at(topic), ["value"], start=half)) == list(range(300, 600))
    assert penstock.read(log.at(topic), start=whole).num_rows == 0


@needs(Ability.FINDS_TIMES, Ability.FINDS_OWN_TIMES)
def test_a_time_is_a_bound(log: Log) -> None:
    topic = log.topic(3)
    fill(log, topic, 0, 300)
    ten, late = datetime.fromtimestamp(10, UTC), datetime(2100, 1, 1, tzinfo=UTC)
    assert numbers(penstock.read(log.at(topic), start=ten, end=late)) == list(range(10, 300))
    assert penstock.read(log.at(topic), start=late).num_rows == 0


@lacks(Ability.FINDS_TIMES)
def test_a_time_is_a_clear_error(log: Log) -> None:
    topic = log.topic()
    with pytest.raises(PenstockError, match="time"):
        penstock.read(log.at(topic), start=datetime(2020, 1, 1, tzinfo=UTC))
