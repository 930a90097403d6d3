"""Who tests with penstock installed gets its modules as they are, without pytest's rewriting."""

from __future__ import annotations

import importlib
from importlib.machinery import SourceFileLoader

import pytest


@pytest.mark.parametrize(
    "name", ["penstock.client.consumer.consumer", "penstock.snode.node", "penstock.records.scalar_codec"]
)
def test_modules_are_loaded_by_python(name: str) -> None:
    assert type(importlib.import_module(name).__loader__) is SourceFileLoader
