"""Every home of kernels, everybody's and each protocol's: both implementations are there, and do for each other."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import pytest

from penstock import kernels
from penstock.kernels.cache import MAIN, folder
from penstock.kernels.warm import homes
from penstock.protocols import protocol, schemes

OWN = [scheme for scheme in schemes() if protocol(scheme).kernels]


def parameters(function: Callable[..., object]) -> list[str]:
    return list(inspect.signature(getattr(function, "py_func", function)).parameters)


@pytest.mark.parametrize("home", homes())
def test_both_have_the_same_functions_of_the_same_arguments(home: str) -> None:
    pure, compiled = (import_module(f"{home}.{which}") for which in ("_pure", "_numba"))
    assert set(pure.__all__) == set(compiled.__all__)
    for name in {*pure.__all__} - {"COMPILED"}:
        assert parameters(getattr(pure, name)) == parameters(getattr(compiled, name)), name


@pytest.mark.parametrize("scheme", OWN)
def test_a_protocols_kernels_are_chosen_as_everybodys_are(scheme: str) -> None:
    home = protocol(scheme).kernels
    for which in ("numba", "pure"):
        with kernels.using(which):
            assert kernels.kernel_of(home, 1).__name__ == f"{home}._{which}"


@pytest.mark.parametrize("scheme", OWN)
def test_a_protocols_kernels_are_kept_apart_so_that_another_one_changes_nothing(scheme: str) -> None:
    assert folder(protocol(scheme).kernels) != folder(MAIN)


@pytest.mark.parametrize("scheme", OWN)
def test_what_a_protocols_kernels_say_is_compared(scheme: str) -> None:
    assert Path(__file__).with_name(f"test_{scheme}_agreement.py").exists()
