"""The flights, read once: half a second that every test here would pay."""

import pyarrow as pa
import pytest

from penstock.demo.flights import FlightEvents, flights_events, flights_table


@pytest.fixture(scope="session")
def table() -> pa.Table:
    return flights_table()


@pytest.fixture(scope="session")
def events(table: pa.Table) -> FlightEvents:
    return flights_events(table)
