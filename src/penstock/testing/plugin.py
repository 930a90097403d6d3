"""The pytest plugin: fixtures for tests that need a log. It is installed with penstock and loaded by its entry point.

pytest loads this module in every project of an environment with penstock, so it must not import anything before a
fixture is used.
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
    """Stop pytest from rewriting assertions in penstock's modules, as it does for every package with a plugin.

    Clients and nodes import modules in their own threads, and CPython up to 3.12 sometimes raises SystemError if two
    threads parse at the same time.
    """
    for finder in sys.meta_path:
        marked = getattr(finder, "_must_rewrite", None)
        if isinstance(marked, set):
            marked.discard("penstock")


_spare_our_modules()


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """A node for this test only, with files in ``tmp_path``; any Kafka client connects to ``broker.bootstrap``."""
    from penstock.testing import Broker

    with Broker(f"file:{tmp_path / 'broker'}") as running:
        yield running
