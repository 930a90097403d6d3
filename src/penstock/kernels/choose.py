"""Which kernel runs: ``PENSTOCK_KERNEL=pure|numba`` forces one, otherwise numba where it is installed, else pure.

The choice is made at the first use and kept; importing this module imports neither implementation. Whatever is wrong
with numba, or with what it compiled, the pure kernel works, and the log has one line about it; only a forced numba is
an error. What must not live here: loops over bytes.
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
"""Loading numba costs 0.4 to 0.5 s of CPU, which plain Python has lost after some 10 MB that it reads record by record,
and NumPy after three to four million records of 100 bytes; who asks counts in the former's bytes.

Rented at first, bought when nearly half of that is spent: who reads a million records never pays, a stream pays once.
"""

_COLD_BYTES: Final = 32 << 20
"""Compiling takes 16 to 21 s of another process: begun by who reads this much, so that short programs never do."""

_AGAIN_BYTES: Final = 8 << 20
"""After so much more, it is looked whether somebody has compiled meanwhile."""


class _State:
    """What was chosen; one a process. ``loaded`` are the chosen kernels that may be used, by their homes."""

    chosen: str | None = None
    forced: bool = False
    loaded: ClassVar[dict[str, ModuleType]] = {}
    under_way: ClassVar[set[str]] = set()
    walked: int = 0  # bytes, as of plain Python
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
    """Return the kernel for a piece of work worth ``size`` bytes in plain Python; None means "the chosen one, now".

    While numba is chosen by default but not loaded yet, small pieces get the pure kernel.
    """
    return cast("Kernel", kernel_of(MAIN, size))


def kernel_of(home: str, size: int | None = None) -> ModuleType:
    """Return a protocol's own kernel, chosen likewise: ``home`` is the package that has both, `_pure` and `_numba`."""
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
    """Return the chosen kernel if it is loaded; nothing is imported for whoever can do without."""
    return cast("Kernel | None", _State.loaded.get(MAIN))


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
    """Load the chosen kernel now; call it at a start-up that would rather wait there than in the first large read."""
    return cast("Kernel", _State.loaded.get(MAIN) or _load(MAIN))


def warm(homes: Collection[str]) -> None:
    """Compile the chosen kernels of these homes, where they are not compiled yet; load nothing where they are.

    Raises LocalError where numba cannot do it.
    """
    for home in homes:
        if name() == "numba" and not is_warm(home):
            try:
                _load_all("numba", home)
            except Exception as error:
                raise LocalError(f"numba cannot compile kernels here: {_short(error)}") from error


def _bring(home: str) -> None:
    """Load the chosen kernel if that is quick, or nobody else would compile it; else have that done, and look again."""
    if _State.compiling is None or all(map(is_warm, _with_main(home))):
        _load(home)
        return
    if _State.walked > _COLD_BYTES and not _State.asked and _can_be_compiled(home):
        _State.asked = True
        _State.compiling()
    _State.pays_at[home] = _State.walked + _AGAIN_BYTES
    _State.under_way.discard(home)


def _can_be_compiled(home: str) -> bool:
    """Whether what another process compiles can be kept, and none is at it."""
    return folder(home) is not None and not any(map(being_compiled, _with_main(home)))


def _with_main(home: str) -> tuple[str, ...]:
    """The homes whose kernels are loaded with this one's: a protocol's are made of pieces that are all's."""
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
        # Two threads may be here at once; the second one finds that it is said.
        if _State.chosen != "pure":
            _State.chosen = "pure"
            _log.warning("compiled kernels cannot be used, NumPy does their work: %s", _short(error))
        loaded = _load_all("pure", home)
    _State.loaded[home] = loaded
    return loaded


def _load_all(which: str, home: str) -> ModuleType:
    return [_import(which, each) for each in _with_main(home)][-1]


def _short(error: Exception) -> str:
    """In one line; numba's errors have many."""
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
            # Two threads that parse Python at once may get this from some Pythons (seen: 3.11.7; gh-106905);
            # under pytest, which rewrites what it imports, that is no rare thing. Nothing stays of the first try.
            return importlib.import_module(f"{home}._{which}")
        except Exception:
            if not forget_unmarked(home):
                raise
            return importlib.import_module(f"{home}._{which}")
