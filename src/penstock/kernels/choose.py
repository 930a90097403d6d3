"""Which kernel runs: ``PENSTOCK_KERNEL=pure|numba`` forces one; otherwise numba if it is installed, else pure.

The choice is made at the first use and kept. Importing this module imports neither implementation. If numba, or code
that it compiled, does not work, the pure kernel is used and the log has one line about it; it is an error only if numba
is forced.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import logging
import os
from collections.abc import Callable, Collection, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, ClassVar, Final, cast

from penstock.errors import ConfigError, LocalError
from penstock.extras import EXTRAS, refusal
from penstock.kernels.cache import MAIN, being_compiled, folder, forget_unmarked, in_turn, is_warm

if TYPE_CHECKING:
    from penstock.kernels.interface import Kernel

__all__ = ["compile_beside", "if_loaded", "kernel", "kernel_of", "load", "load_beside", "name", "using", "warm"]

_log = logging.getLogger("penstock.kernels")

_NAMES: Final = ("pure", "numba")
_VARIABLE: Final = "PENSTOCK_KERNEL"

_WARM_UP_BYTES: Final = 4 << 20
"""When to load numba. Loading it takes 0.4 to 0.5 s of CPU. Plain Python has lost as much after some 10 MB that it
reads record by record, and NumPy after three to four million records of 100 bytes; callers count in the former's bytes.

Numba is loaded when nearly half of that is spent. So a short program that reads a million records never pays for it,
and a long stream pays once.
"""

_COLD_BYTES: Final = 32 << 20
"""Compiling takes 16 to 21 s in another process. It starts after this many bytes, so never for short programs."""

_AGAIN_BYTES: Final = 8 << 20
"""After so many more bytes, check whether another process has compiled meanwhile."""


class _State:
    """The choice, one per process. ``loaded`` has the chosen kernels that are ready, by their homes."""

    chosen: str | None = None
    forced: bool = False
    loaded: ClassVar[dict[str, ModuleType]] = {}
    under_way: ClassVar[set[str]] = set()
    walked: int = 0  # in bytes of plain Python
    pays_at: ClassVar[dict[str, int]] = {}
    beside: Callable[[Callable[[], object]], bool] | None = None
    compiling: Callable[[], object] | None = None
    asked: bool = False


def name() -> str:
    """Return ``"numba"`` or ``"pure"``, the kernel that runs here.

    Raises ConfigError if ``PENSTOCK_KERNEL`` names an unknown kernel, MissingExtra if it is not installed.
    """
    if _State.chosen is None:
        _State.chosen = _choose(os.environ.get(_VARIABLE, ""))
    return _State.chosen


def kernel(size: int | None = None) -> Kernel:
    """Return the kernel for work of ``size`` bytes in plain Python; None loads the chosen one now.

    While numba is chosen by default but not loaded yet, small pieces of work get the pure kernel.
    """
    return cast("Kernel", kernel_of(MAIN, size))


def kernel_of(home: str, size: int | None = None) -> ModuleType:
    """Return a protocol's own kernel, chosen likewise; ``home`` is the package with its `_pure` and `_numba`."""
    loaded = _State.loaded.get(home)
    if loaded is not None:
        return loaded
    if size is None or name() == "pure" or _State.forced or os.environ.get(_VARIABLE):
        return _load(home)
    _State.walked += size
    if _State.walked > _State.pays_at.get(home, _WARM_UP_BYTES) and home not in _State.under_way:
        _State.under_way.add(home)
        bring = functools.partial(_bring, home)
        if _State.beside is None or not _State.beside(bring):
            bring()
    return _State.loaded.get(home) or _import("pure", home)


def if_loaded() -> Kernel | None:
    """Return the chosen kernel if it is loaded; imports nothing."""
    return cast("Kernel | None", _State.loaded.get(MAIN))


def load_beside(beside: Callable[[Callable[[], object]], bool]) -> None:
    """Set a function that loads kernels without blocking the caller; it returns True if it has taken over the work.

    This module has no threads and no event loop. Code that runs a loop sets such a function, so that loading does not
    block the loop.
    """
    _State.beside = beside


def compile_beside(compiling: Callable[[], object]) -> None:
    """Set a function that lets another process compile; it is called once, and the pure kernel is used meanwhile.

    Without it, the first large piece of work on a machine waits for the compiler.
    """
    _State.compiling = compiling


@contextlib.contextmanager
def using(which: str) -> Iterator[None]:
    """Use one implementation in the whole process, whatever the environment says; for tests and benchmarks."""
    chosen, forced, loaded = _State.chosen, _State.forced, dict(_State.loaded)
    _State.chosen, _State.forced = _choose(which), True
    _State.loaded.clear()
    _load(MAIN)
    try:
        yield
    finally:
        _State.chosen, _State.forced = chosen, forced
        _State.loaded.clear()
        _State.loaded.update(loaded)


def load() -> Kernel:
    """Load the chosen kernel now. Call it at start-up if waiting there is better than in the first large read."""
    return cast("Kernel", _State.loaded.get(MAIN) or _load(MAIN))


def warm(homes: Collection[str]) -> None:
    """Compile the chosen kernels of these homes, unless they are compiled already; then load nothing.

    Raises LocalError if numba fails.
    """
    for home in homes:
        if name() == "numba" and not is_warm(home):
            try:
                _load_all("numba", home)
            except Exception as error:
                raise LocalError(f"numba cannot compile kernels here: {_short(error)}") from error


def _bring(home: str) -> None:
    """Load the chosen kernel if that is quick, or must be compiled here; else have it compiled, and check later."""
    if _State.compiling is None or all(map(is_warm, _with_main(home))):
        _load(home)
        return
    if _State.walked > _COLD_BYTES and not _State.asked and _can_be_compiled(home):
        _State.asked = True
        _State.compiling()
    _State.pays_at[home] = _State.walked + _AGAIN_BYTES
    _State.under_way.discard(home)


def _can_be_compiled(home: str) -> bool:
    """Whether another process's result could be stored, and none is compiling now."""
    return folder(home) is not None and not any(map(being_compiled, _with_main(home)))


def _with_main(home: str) -> tuple[str, ...]:
    """The homes to load for this one: a protocol's kernels use pieces of the main ones."""
    return (home,) if home == MAIN else (MAIN, home)


def _load(home: str) -> ModuleType:
    which = name()
    try:
        loaded = _load_all(which, home)
    except Exception as error:
        if which == "pure":
            raise
        if _State.forced or os.environ.get(_VARIABLE):
            raise ConfigError(
                f"{_VARIABLE}=numba, and its kernels cannot be loaded: {_short(error)}",
                hint="Without the variable the pure kernel takes over",
            ) from error
        # Two threads may be here at once; only the first one logs.
        if _State.chosen != "pure":
            _State.chosen = "pure"
            _log.warning("compiled kernels cannot be used, NumPy does their work: %s", _short(error))
        loaded = _load_all("pure", home)
    _State.loaded[home] = loaded
    return loaded


def _load_all(which: str, home: str) -> ModuleType:
    return [_import(which, each) for each in _with_main(home)][-1]


def _short(error: Exception) -> str:
    """The error in one line; numba's errors have many."""
    text = str(error).strip()
    return f"{type(error).__name__}: {text.splitlines()[0][:300]}" if text else type(error).__name__


def _choose(wanted: str) -> str:
    if wanted and wanted not in _NAMES:
        raise ConfigError(f"{_VARIABLE}={wanted} names no kernel", hint=f"Use {' or '.join(_NAMES)}")
    there = not EXTRAS["fast"].missing
    if wanted == "numba" and not there:
        raise refusal("fast", f"{_VARIABLE}=numba")
    return wanted or ("numba" if there else "pure")


def _import(which: str, home: str) -> ModuleType:
    if which == "pure":
        return importlib.import_module(f"{home}._{which}")
    with in_turn(home):
        try:
            return importlib.import_module(f"{home}._{which}")
        except SystemError:
            # Some Pythons raise this if two threads parse source at once (seen: 3.11.7; gh-106905), which is not rare
            # under pytest, as it rewrites imported modules. The failed import leaves nothing behind, so it is repeated.
            return importlib.import_module(f"{home}._{which}")
        except Exception:
            if not forget_unmarked(home):
                raise
            return importlib.import_module(f"{home}._{which}")
