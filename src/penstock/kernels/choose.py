"""Which kernel runs: ``PENSTOCK_KERNEL=pure|numba`` forces one, otherwise numba where it is installed, else pure.

The choice is made at the first use and kept; importing this module imports neither implementation. What must not
live here: loops over bytes.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, cast

from penstock.errors import ConfigError

if TYPE_CHECKING:
    from penstock.kernels.interface import Kernel
    from penstock.kernels.tube_interface import TubeKernel

__all__ = ["kernel", "load", "name", "tube_kernel", "using"]

_NAMES: Final = ("pure", "numba")
_VARIABLE: Final = "PENSTOCK_KERNEL"

_WARM_UP_BYTES: Final = 4 << 20
"""Loading numba costs 0.2 to 0.3 s, in which the pure kernel walks some 20 MB of records, or 5 MB of tiny ones.

Rented until then, bought afterwards: a command that reads ten messages never pays, a stream pays once.
"""


class _State:
    """What was chosen; one a process."""

    chosen: str | None = None
    loaded: Kernel | None = None
    walked: int = 0  # bytes


def name() -> str:
    """Return ``"numba"`` or ``"pure"``: the kernel that runs here.

    Raises ConfigError if ``PENSTOCK_KERNEL`` names one that does not exist or is not installed.
    """
    if _State.chosen is None:
        _State.chosen = _choose(os.environ.get(_VARIABLE, ""))
    return _State.chosen


def kernel(size: int | None = None) -> Kernel:
    """Return the kernel for a piece of work of ``size`` bytes; None means "the chosen one, now".

    While numba is chosen by default but not loaded yet, small pieces get the pure kernel.
    """
    if _State.loaded is not None:
        return _State.loaded
    if size is None or name() == "pure" or os.environ.get(_VARIABLE):
        return load()
    _State.walked += size
    if _State.walked > _WARM_UP_BYTES:
        return load()
    return _import("pure")


def tube_kernel(size: int | None = None) -> TubeKernel:
    """Return TubeMQ's part of the kernel that `kernel` would return."""
    part = "numba" if kernel(size) is _State.loaded and name() == "numba" else "pure"
    return cast("TubeKernel", importlib.import_module(f"penstock.kernels._{part}.tube"))


@contextlib.contextmanager
def using(which: str) -> Iterator[None]:
    """Use one implementation in the whole process, whatever the environment says: for tests and benchmarks."""
    before = _State.chosen, _State.loaded
    _State.chosen = _choose(which)
    _State.loaded = _import(which)
    try:
        yield
    finally:
        _State.chosen, _State.loaded = before


def load() -> Kernel:
    """Load the chosen kernel now; call it at a start-up that would rather wait there than in the first large read."""
    if _State.loaded is None:
        _State.loaded = _import(name())
    return _State.loaded


def _choose(wanted: str) -> str:
    if wanted and wanted not in _NAMES:
        raise ConfigError(f"{_VARIABLE}={wanted} names no kernel", hint=f"Known are {' and '.join(_NAMES)}")
    there = importlib.util.find_spec("numba") is not None
    if wanted == "numba" and not there:
        raise ConfigError(f"{_VARIABLE}=numba, but numba is not installed", hint="pip install numba, or unset it")
    return wanted or ("numba" if there else "pure")


def _import(which: str) -> Kernel:
    return cast("Kernel", importlib.import_module(f"penstock.kernels._{which}"))
