"""Every store test runs on disk and in memory, unless it asks for one of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.unit.store.homes import Home, homes


@pytest.fixture(params=["disk", "memory"])
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Home]:
    yield from homes(request.param, tmp_path)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Home]:
    yield from homes("disk", tmp_path)
