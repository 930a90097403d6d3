"""Which kernel runs: ``PENSTOCK_KERNEL=pure|numba`` forces one, otherwise numba where it is installed, else pure.

The choice is made at the first use and kept; importing this module imports neither implementation. What must not
live here: loops over bytes.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.util
import os
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Final, cast

from penstock.errors import ConfigError
from penstock.extras import refusal
from penstock.kernels.cache import being_compiled, folder, in_turn, is_warm

if TYPE_CHECKING:
    from penstock.kernels.interface import Kernel
    from penstock.kernels.tube_interface import TubeKernel

__all__ = ["compile_beside", "kernel", "load", "load_beside", "name", "tube_kernel", "using", "warm"]

_NAMES: Final = ("pure", "numba")
_VARIABLE: Final = "PENSTOCK_KERNEL"

_WARM_UP_BYTES: Final = 4 << 20
"""Loading numba costs 0.2 to 0.3 s, in which the pure kernel walks some 20 MB of records, or 5 MB of tiny ones.

Rented until then, bought afterwards: a command that reads ten messages never pays, a stream pays once.
"""

_COLD_BYTES: Final = 64 << 20
"""Compiling takes 16 to 21 s of another process: begun by who reads this much, so that short programs never do."""

_AGAIN_BYTES: Final = 16 << 20
"""After so much more, it is looked whether somebody has compiled meanwhile."""

_MAIN: Final = ""
_TUBE: Final = ".tube"


class _State:
    """What was chosen; one a process. ``loaded`` are the chosen kernel's parts that may be used."""

    chosen: str | None = None
    loaded: ClassVar[dict[str, ModuleType]] = {}
    under_way: ClassVar[set[str]] = set()
    walked: int = 0  # bytes
    pays_at: ClassVar[dict[str, int]] = {}
    beside: Callable[[Callable[[], object]], bool] | None = None
    compiling: Callable[[], object] | None = None
    asked: bool = False


def name() -> str:
    """Return ``"numba"`` or ``"pure"``: the kernel that runs here.

    Raises ConfigError if ``PENSTOCK_KERNEL`` names one that does not exist, MissingExtra for one that is not installed.
    """
    if _State.chosen is None:
        _State.chosen = _choose(os.environ.get(_VARIABLE, ""))
    return _State.chosen


def kernel(size: int | None = None) -> Kernel:
    """Return the kernel for a piece of work of ``size`` bytes; None means "the chosen one, now".

    While numba is chosen by default but not loaded yet, small pieces get the pure kernel.
    """
    return cast("Kernel", _part(_MAIN, size))


def tube_kernel(size: int | None = None) -> TubeKernel:
    """Return TubeMQ's part of the kernel, chosen likewise."""
    return cast("TubeKernel", _part(_TUBE, size))


def load_beside(beside: Callable[[Callable[[], object]], bool]) -> None:
    """Let ``beside`` say who loads what begins to pay: True if it has taken the work over, and nobody has to wait.

    Here is no thread and no event loop; whoever has a loop that nothing may hold up says so.
    """
    _State.beside = beside


def compile_beside(compiling: Callable[[], object]) -> None:
    """Let ``compiling`` have another process compile; it is called once, and nobody waits: the pure kernel works on.

    Without it, whoever meets the first large piece of work on a machine compiles, and waits.
    """
    _State.compiling = compiling


@contextlib.contextmanager
def using(which: str) -> Iterator[None]:
    """Use one implementation in the whole process, whatever the environment says: for tests and benchmarks."""
    chosen, loaded = _State.chosen, dict(_State.loaded)
    _State.chosen = _choose(which)
    _State.loaded.clear()
    _load(_MAIN)
    _load(_TUBE)
    try:
        yield
    finally:
        _State.chosen = chosen
        _State.loaded.clear()
        _State.loaded.update(loaded)


def load() -> Kernel:
    """Load the chosen kernel now; call it at a start-up that would rather wait there than in the first large read."""
    return cast("Kernel", _State.loaded.get(_MAIN) or _load(_MAIN))


def warm() -> None:
    """Compile all parts of the chosen kernel, where they are not compiled yet; load nothing where they are."""
    for part in (_MAIN, _TUBE):
        if name() == "numba" and not is_warm(part):
            _load(part)


def _part(part: str, size: int | None) -> ModuleType:
    loaded = _State.loaded.get(part)
    if loaded is not None:
        return loaded
    if size is None or name() == "pure" or os.environ.get(_VARIABLE):
        return _load(part)
    _State.walked += size
    if _State.walked > _State.pays_at.get(part, _WARM_UP_BYTES) and part not in _State.under_way:
        _State.under_way.add(part)
        bring = functools.partial(_bring, part)
        if _State.beside is None or not _State.beside(bring):
            bring()
    return _State.loaded.get(part) or _import("pure", part)


def _bring(part: str) -> None:
    """Load the chosen kernel if that is quick, or nobody else would compile it; else have that done, and look again."""
    if _State.compiling is None or is_warm(part):
        _load(part)
        return
    if _State.walked > _COLD_BYTES and not _State.asked and folder() is not None and not being_compiled():
        _State.asked = True
        _State.compiling()
    _State.pays_at[part] = _State.walked + _AGAIN_BYTES
    _State.under_way.discard(part)


def _load(part: str) -> ModuleType:
    _State.loaded[part] = module = _import(name(), part)
    return module


def _choose(wanted: str) -> str:
    if wanted and wanted not in _NAMES:
        raise ConfigError(f"{_VARIABLE}={wanted} names no kernel", hint=f"Known are {' and '.join(_NAMES)}")
    there = importlib.util.find_spec("numba") is not None
    if wanted == "numba" and not there:
        raise refusal("fast", f"{_VARIABLE}=numba")
    return wanted or ("numba" if there else "pure")


def _import(which: str, part: str) -> ModuleType:
    if which == "pure":
        return importlib.import_module(f"penstock.kernels._{which}{part}")
    with in_turn(part):
        try:
            return importlib.import_module(f"penstock.kernels._{which}{part}")
        except SystemError:
            # Two threads that parse Python at once may get this from some Pythons (seen: 3.11.7; gh-106905);
            # under pytest, which rewrites what it imports, that is no rare thing. Nothing stays of the first try.
            return importlib.import_module(f"penstock.kernels._{which}{part}")
