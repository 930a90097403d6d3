"""The ways in which kernels can be made to do the same work: numba's; the pure one's by loops, and by NumPy, both ways.

The pure kernel chooses by how much there is to do; tests would never be large enough for all of its ways.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from importlib import import_module
from typing import Any, Final
from unittest.mock import patch

from penstock import kernels

WAYS: Final = ("numba", "pure", "side by side", "one by one")
_BY_NUMPY: Final = {
    "batches": {"_FEW_BATCHES": 0, "_FEW_PIECES": 0, "_FEW_FOR_ARROW": 0},
    "records": {"_FEW_HEADERS": 0, "_MOST_STEPS": 3, "_FEW_LEFT": 2, "_FEW_RECORDS": 0, "_MANY": 3},
}
_CHANGES: Final[Mapping[str, Mapping[str, Mapping[str, int]]]] = {
    "side by side": _BY_NUMPY | {"records": _BY_NUMPY["records"] | {"_STEP": 0}},
    "one by one": _BY_NUMPY | {"records": _BY_NUMPY["records"] | {"_STEP": 1 << 40}},
}


@contextmanager
def by(way: str) -> Iterator[None]:
    """Decode in this way."""
    with kernels.using("numba" if way == "numba" else "pure"), ExitStack() as changed:
        for name, values in _CHANGES.get(way, {}).items():
            changed.enter_context(patch.multiple(import_module(f"penstock.kernels._pure.{name}"), **values))
        yield


def same(work: Callable[[], Any]) -> Any:
    """Do the work in every way; returns the answer that all have given."""
    answers = {}
    for way in WAYS:
        with by(way):
            answers[way] = work()
    for way, answer in answers.items():
        assert answer == answers["numba"], way
    return answers["numba"]
