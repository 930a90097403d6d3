"""Every table of every state machine: each (state, event) pair has a row, or is a bug that names both."""

from __future__ import annotations

import enum
import importlib
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.errors import PenstockError
from penstock.groups.state_machine import Table, UndefinedTransition

SOURCE = Path(penstock.__file__).parent
AnyTable = Table[enum.Enum, enum.Enum, Any]


def tables() -> Iterator[tuple[str, AnyTable]]:
    """All that stand in modules, by where they stand."""
    for file in sorted(SOURCE.rglob("*.py")):
        if " = Table(" in file.read_text():
            name = ".".join(("penstock", *file.relative_to(SOURCE).with_suffix("").parts))
            for attribute, value in vars(importlib.import_module(name)).items():
                if isinstance(value, Table):
                    yield f"{name}.{attribute}", value


TABLES = dict(tables())


def test_the_known_machines_are_found() -> None:
    found = {table.what for table in TABLES.values()}
    assert found >= {"a group", "a member of a group", "a transactional id", "a transactional producer", "a booking"}
    assert len(TABLES) >= 10


@pytest.mark.parametrize("name", TABLES)
def test_every_pair_has_a_row_or_is_a_bug_that_names_both(name: str) -> None:
    table = TABLES[name]
    (states,) = {type(state) for state, _ in table}
    (events,) = {type(event) for _, event in table}
    for state, event in itertools.product(states, events):
        if (state, event) in table:
            assert table[state, event] is table.get((state, event))
            continue
        with pytest.raises(UndefinedTransition) as bug:
            table[state, event]
        assert all(each in str(bug.value) for each in (table.what, state.name, event.name))
    assert {event for _, event in table} == set(events), "an event that never happens"


def test_a_bug_is_nobodys_mistake() -> None:
    assert not issubclass(UndefinedTransition, PenstockError)
    assert not issubclass(UndefinedTransition, ValueError)
