"""Mistakes that people make: each is said in one line, soon, and harms no other client of the process.

Read the rows in the files beside this one. Each is made on a node that speaks both protocols, once a protocol.
"""

from __future__ import annotations

import logging
import re
import time
import traceback
from collections.abc import Iterator

import pytest

import penstock
from penstock.testing import Broker
from tests.mistakes import rows_columns, rows_hosts, rows_lifetimes, rows_names, rows_types
from tests.mistakes.row import Mistake, World

TABLE: list[Mistake] = [
    *rows_types.TABLE,
    *rows_columns.TABLE,
    *rows_names.TABLE,
    *rows_hosts.TABLE,
    *rows_lifetimes.TABLE,
]
PATIENCE = 6.0
"""Times what a mistake may take: for machines that do much else."""


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as broker:
        broker.create_topic("orders", partitions=2)
        broker.create_topic("neighbour")
        yield broker


@pytest.fixture(scope="module")
def neighbours(broker: Broker) -> Iterator[list[penstock.Producer]]:
    """Two producers that do nothing wrong, for as long as all the mistakes are made."""
    with penstock.Producer(broker.url("kafka")) as one, penstock.Producer(broker.url("tubemq")) as other:
        yield [one, other]


def test_there_are_sixty() -> None:
    assert len(TABLE) >= 60
    assert len({row.what for row in TABLE}) == len(TABLE)


@pytest.mark.parametrize("scheme", ["kafka", "tubemq"])
@pytest.mark.parametrize("row", TABLE, ids=lambda row: row.what)
def test_a_mistake_is_told_and_harms_nobody_else(
    row: Mistake,
    scheme: str,
    broker: Broker,
    neighbours: list[penstock.Producer],
    caplog: pytest.LogCaptureFixture,
) -> None:
    deliveries = [each.send("neighbour", b"before") for each in neighbours]
    begun = time.monotonic()
    with caplog.at_level(logging.INFO, "penstock"):
        if isinstance(row.kind, str):
            row.made(World(broker, scheme))
            lines = [f"{line.levelname} {line.getMessage()}" for line in caplog.records]
            assert any(re.search(f"^{row.kind} .*{row.says}", line) for line in lines), lines
        else:
            with pytest.raises(row.kind, match=row.says) as told:
                row.made(World(broker, scheme))
            one_line(told.value)
    assert time.monotonic() - begun < row.within_s * PATIENCE
    deliveries += [each.send("neighbour", b"after") for each in neighbours]
    for delivery in deliveries:
        delivery.result(30)


def one_line(error: BaseException) -> None:
    """What it says fits a line of a log, and nothing of what lies below is shown with it."""
    assert 10 < len(str(error)) < 400
    assert "\n" not in str(error)
    shown = "".join(traceback.format_exception(error))
    assert shown.count("Traceback (most recent call last)") == 1
