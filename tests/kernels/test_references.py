"""Compiled kernels count no references of the arrays they are given: that took longer than all they do."""

from __future__ import annotations

import importlib
import pkgutil
from typing import Any

import pytest

pytest.importorskip("numba")


def kernels_of(home: str) -> list[object]:
    package = importlib.import_module(home)
    modules = [importlib.import_module(f"{home}.{each.name}") for each in pkgutil.iter_modules(package.__path__)]
    return [each for module in modules for each in vars(module).values() if hasattr(each, "targetoptions")]


@pytest.mark.parametrize("home", ["penstock.kernels._numba", "penstock.protocols.rocketmq.kernels._numba"])
def test_kernels_are_compiled_without_counting(home: str) -> None:
    found = kernels_of(home)
    assert len(found) > 3
    for kernel in found:
        assert kernel.targetoptions["_nrt"] is False  # type: ignore[attr-defined]


def test_that_leaves_no_counting_in_the_code() -> None:
    import numba

    from penstock.kernels._numba import compiling

    def first(data: Any, at: int) -> int:
        while data[at] > 127:
            at += 1
        return at

    def twice(data: Any) -> int:
        at: int = 0
        for place in range(len(data)):
            at += found(data, place)
        return at

    found = numba.njit(**compiling._OPTIONS)(first)
    kernel = numba.njit([(compiling.BYTES,)], **compiling._OPTIONS)(twice)
    (code,) = kernel.inspect_llvm().values()
    assert "first" in code
    assert "NRT_incref" not in code
