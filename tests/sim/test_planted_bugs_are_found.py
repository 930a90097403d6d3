"""A simulation that finds nothing may be blind: so bugs are planted, one of each kind, and it has to find them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.sim.apart import in_a_process_of_its_own
from tests.sim.planted import PLANTS

WITHIN = 150
FIRST = 13_000


@pytest.fixture(scope="module")
def finds() -> dict[tuple[str, str], dict[str, Any]]:
    code, said = in_a_process_of_its_own("tests.sim.seek", str(FIRST), str(WITHIN))
    assert code == 0, said
    found = [json.loads(line) for line in said.splitlines()]
    return {(each["name"], each["kind"]): each for each in found}


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, plant in PLANTS.items() for kind in plant.kinds])
def test_a_planted_bug_is_found(name: str, kind: str, finds: dict[tuple[str, str], dict[str, Any]]) -> None:
    found = finds[name, kind]
    assert "broken" in found, f"{name}: not found in {WITHIN} schedules"
    assert any(words in found["broken"] for words in PLANTS[name].said), found
    assert not found["without"], "the schedule holds without the bug"
