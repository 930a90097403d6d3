"""The pytest plugin: fixtures for whoever tests against a log. Installed with penstock, loaded by its entry point.

What must not live here: anything imported before a fixture is asked for; every pytest of every project that has
penstock installed loads this module.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from penstock.testing import Broker


def _spare_our_modules() -> None:
    """Have pytest load penstock's modules as Python does.

    It would rewrite the assertions of every module that comes with a plugin. Clients and nodes load what they need in
    threads of their own, and CPython up to 3.12 raises SystemError at times where two threads parse at once.
    """
    for finder in sys.meta_path:
        marked = getattr(finder, "_must_rewrite", None)
        if isinstance(marked, set):
            marked.discard("penstock")


_spare_our_modules()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A node of this test's own, on files in ``tmp_path``; any Kafka client connects to ``broker.bootstrap``."""
    from penstock.testing import Broker

    with Broker(f"file:{tmp_path / 'broker'}") as running:
        yield running
