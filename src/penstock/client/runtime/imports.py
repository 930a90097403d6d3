"""Imports and compilation that traffic needs, done before the traffic and never on a thread that runs an event loop.

An import takes from milliseconds (a family of requests) to seconds (Arrow, a compiler). On the loop's thread, nothing
would be sent meanwhile, not even a heartbeat. Imports that only pay off after some traffic run in a background thread,
and compilation in another process.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock import kernels
from penstock.interfaces import WireProtocol
from penstock.kernels.cache import MAIN

if TYPE_CHECKING:
    from threading import Thread

__all__ = [
    "columns_there",
    "compile_in_background",
    "faster_thread_switches",
    "functions_there",
    "load",
    "loaded",
    "loaded_for",
    "needs_import",
    "run_in_background",
    "start_import",
]

# Faster thread switches keep imports from starving while other threads compute.
#
# An import releases the interpreter at every file, and a computing thread then keeps it for its whole switch interval,
# 5 ms. With a loop of sends running, imports of half a second took four seconds, during which the pure kernels did the
# work. So the interval is short while an import runs.
_INTERVAL_S: Final = 0.000_5
_HALF_US: Final = 0.000_000_5
_lock: Final = threading.Lock()
_before_s: Final[list[float]] = []
"""The original interval, once for each import under way."""


@contextmanager
def faster_thread_switches() -> Iterator[None]:
    """Shorten the switch interval. The last one to end restores it, unless other code has changed it meanwhile."""
    with _lock:
        _before_s.append(_before_s[0] if _before_s else sys.getswitchinterval())
        sys.setswitchinterval(min(_before_s[0], _INTERVAL_S))
    try:
        yield
    finally:
        with _lock:
            before_s = _before_s.pop()
            if not _before_s and abs(sys.getswitchinterval() - min(before_s, _INTERVAL_S)) < 2 * _HALF_US + 1e-9:
                sys.setswitchinterval(before_s + _HALF_US)  # Python truncates it to whole microseconds


# Kernels are compiled in another process, so that no client waits for the compiler; it ends with this process. The
# imports are inside the functions, because Spark's tasks load this module.
def compile_in_background() -> Thread:
    """Start compiling; returns the thread that waits for the end. The process has this one's ``sys.path``."""
    import threading

    thread = threading.Thread(target=_compile, name="penstock compile", daemon=True)
    thread.start()
    return thread


def _compile() -> None:
    import atexit
    import contextlib
    import logging
    import subprocess

    if not sys.executable:
        return  # Python is embedded in another program
    program = f"import sys; sys.path[:] = {sys.path!r}; from penstock.kernels.warm import main; main([])"
    optimized = ["-" + "O" * sys.flags.optimize] if sys.flags.optimize else []
    with contextlib.suppress(OSError), subprocess.Popen(
        [sys.executable, *optimized, "-c", program],
        stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
    ) as child:  # fmt: skip
        atexit.register(child.kill)
        _, said = child.communicate()
        if child.returncode:
            last = said.decode(errors="replace").strip().rpartition("\n")[2]
            logging.getLogger("penstock.kernels").warning(
                "kernels could not be compiled, NumPy does their work: %s", last or f"exit code {child.returncode}"
            )
        atexit.unregister(child.kill)


_FUNCTIONS: Final = "pyarrow.compute"
"""Arrow's functions on columns: 0.1 s to import, and not needed for a few records."""

_MANY_ROWS: Final = 500
_LISTS: Final = "lists"

_ALWAYS: Final = ("penstock.net.asyncio_channel", "penstock.records.scalar_reader", "penstock.records.messages")
_COLUMNS: Final = (
    "penstock.records.compression",
    "penstock.records.decoding",
    "penstock.kernels._pure",
    "pyarrow._compute",  # copies pieces of many lengths; without all of Arrow's functions
)
_OF_ROLES: Final = {
    "columns": _COLUMNS,
    "producer": ("penstock.records.encoding", "penstock.records.encoding", *_COLUMNS),
}
_exercised: Final[set[str]] = set()
_under_way: Final[set[str]] = set()


async def loaded(protocol: WireProtocol, *roles: str) -> None:
    """Return when everything is imported that a client of this protocol imports in its life.

    Roles are ``consumer``, ``member`` (of a group; ``newer member`` with ``group_protocol=consumer``), ``columns``
    (decoding of more than a handful of records, for clients that decode on the loop; others import it when needed, in
    the thread that polls) and ``producer``.
    """
    wanted = [role for role in roles if _missing(protocol, role)]
    if wanted:
        await _in_passing_thread(lambda: load(protocol, *wanted))


def load(protocol: WireProtocol, *roles: str) -> None:
    """Import it in this thread."""
    for role in roles:
        for name in _missing(protocol, role):
            import_module(name)
    for home in filter(None, (MAIN, protocol.kernels) if {"columns", "producer"} & {*roles} else ()):
        kernels.kernel_of(home, 0)  # a kernel forced by the environment is loaded at its first use
    _exercised.update(roles)
    kernels.load_beside(run_in_background)
    kernels.compile_beside(compile_in_background)


def run_in_background(work: Callable[[], object]) -> bool:
    """Run ``work`` in a new thread, so that neither a loop nor a poll waits for it.

    Returns False without running it when the interpreter ends: a thread that is started then never runs.
    """

    def run() -> None:
        with faster_thread_switches():
            work()

    if sys.is_finalizing():
        return False
    try:
        threading.Thread(target=run, name="penstock load", daemon=True).start()
    except RuntimeError:  # Python 3.12 and later raise it at the interpreter's end
        return False
    return True


def columns_there() -> bool:
    """Whether columns can be decoded without an import."""
    return "pyarrow" in sys.modules


def functions_there() -> bool:
    """Whether Arrow's functions can be called without an import."""
    return _FUNCTIONS in sys.modules and not _under_way


def needs_import(rows: object) -> bool:
    """Whether sending ``rows``, of whatever type, needs an import."""
    if functions_there() and _LISTS in _exercised:
        return False
    return not _is_plain(rows) or not (functions_there() or _count(rows) < _MANY_ROWS)


async def loaded_for(rows: object) -> None:
    """Return when the imports for sending ``rows`` are done."""
    if needs_import(rows):
        lists = not _is_plain(rows)
        await _in_passing_thread(lambda: _load_functions(lists=lists))


def start_import() -> None:
    """Start to import Arrow's functions, for callers that can work without them until then."""
    if not (_under_way or functions_there()):
        _under_way.add(_FUNCTIONS)
        run_in_background(_load_functions)


def _is_plain(rows: object) -> bool:
    """Whether these are columns that can be sent without conversion."""
    schema = getattr(rows, "schema", None)
    kinds = map(str, getattr(schema, "types", ("unknown",)))
    return all(kind in {"binary", "timestamp[us, tz=UTC]"} or kind.startswith("int") for kind in kinds)


def _count(rows: object) -> int:
    count = getattr(rows, "num_rows", _MANY_ROWS)
    return count if isinstance(count, int) else _MANY_ROWS


def _load_functions(*, lists: bool = False) -> None:
    _under_way.add(_FUNCTIONS)
    try:
        import_module(_FUNCTIONS)
        if lists:
            import pyarrow as pa

            pa.array([b""])  # Arrow tries to import pandas when it converts its first list
            _exercised.add(_LISTS)
    finally:
        _under_way.clear()


async def _in_passing_thread(work: Callable[[], None]) -> None:
    """As ``asyncio.to_thread``, in a thread that ends afterwards."""
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def settle(error: BaseException | None) -> None:
        if not done.done():
            done.set_result(None) if error is None else done.set_exception(error)

    def run() -> None:
        error: BaseException | None = None
        try:
            work()
        except BaseException as raised:
            error = raised
        with contextlib.suppress(RuntimeError):  # the loop is closed, so no task waits
            loop.call_soon_threadsafe(settle, error)

    if not run_in_background(run):
        run()
    await done


def _missing(protocol: WireProtocol, role: str) -> list[str]:
    wanted = [*_ALWAYS, *_OF_ROLES.get(role, ()), *protocol.loads.get(role, ())]
    return wanted if role not in _exercised else [name for name in wanted if name not in sys.modules]
