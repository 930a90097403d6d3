"""What tests that play schedules themselves need: imports that are through."""

from __future__ import annotations

import pytest

from tests.sim.run import SCHEMES
from tests.sim.world import ready_to_simulate


@pytest.fixture(autouse=True, scope="package")
def _ready() -> None:
    ready_to_simulate(*SCHEMES)
