"""Loading: what traffic needs is imported before there is any, and by no thread that runs an event loop.

An import takes from milliseconds (a family of requests) to seconds (Arrow, a compiler), in which nothing is sent and no
heartbeat goes out. What pays only after some traffic is loaded beside it.
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
    "beside_readers",
    "columns_there",
    "compile_beside",
    "faster_thread_switches",
    "functions_there",
    "load",
    "loaded",
    "loaded_for",
    "needs_import",
    "start_import",
]

# Brisk: what is imported beside others gets on.
#
# An import lets go of the interpreter at every file, and a thread that computes keeps it then for the whole of its
# switch interval, 5 ms: beside a loop of sends half a second of imports took four, in which the plain kernels did the
# work. So the interval is short while something is imported.
_INTERVAL_S: Final = 0.000_5
_HALF_US: Final = 0.000_000_5
_lock: Final = threading.Lock()
_before_s: Final[list[float]] = []
"""The interval that others had set, once for each who is brisk now."""


@contextmanager
def faster_thread_switches() -> Iterator[None]:
    """Threads take turns more often. The last one to end it puts back what was, unless somebody else set it anew."""
    with _lock:
        _before_s.append(_before_s[0] if _before_s else sys.getswitchinterval())
        sys.setswitchinterval(min(_before_s[0], _INTERVAL_S))
    try:
        yield
    finally:
        with _lock:
            before_s = _before_s.pop()
            if not _before_s and abs(sys.getswitchinterval() - min(before_s, _INTERVAL_S)) < 2 * _HALF_US + 1e-9:
                sys.setswitchinterval(before_s + _HALF_US)  # it is cut to whole microseconds


# Compiling kernels in another process, so that no client waits for it; it ends with this one. Imports are where they
# are needed; Spark's tasks pass here.
def compile_beside() -> Thread:
    """Begin; returns what waits for its end. The other process finds the modules that this one finds."""
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
        return  # a Python inside another program
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
"""What Arrow can do with columns: 0.1 s, which a few records do without."""

_MANY_ROWS: Final = 500
_LISTS: Final = "lists"

_ALWAYS: Final = ("penstock.net.asyncio_channel", "penstock.records.scalar_reader", "penstock.records.messages")
_COLUMNS: Final = (
    "penstock.records.compression",
    "penstock.records.decoding",
    "penstock.kernels._pure",
    "pyarrow._compute",  # its loop copies pieces of many lengths
)
_OF_ROLES: Final = {
    "columns": _COLUMNS,
    "producer": ("penstock.records.encoding", "penstock.records.encoding", *_COLUMNS),
}
_exercised: Final[set[str]] = set()
_under_way: Final[set[str]] = set()


async def loaded(protocol: WireProtocol, *roles: str) -> None:
    """Return when everything is there that a client of this protocol imports in its life.

    Roles are ``consumer``, ``member`` (of a group; ``newer member`` by ``group_protocol=consumer``), ``columns`` (what
    decodes more than a handful of records, for who decodes on the loop; others import it then, in the thread that
    polls) and ``producer``.
    """
    wanted = [role for role in roles if _missing(protocol, role)]
    if wanted:
        await _in_passing_thread(lambda: load(protocol, *wanted))


def load(protocol: WireProtocol, *roles: str) -> None:
    """Import it here and now."""
    for role in roles:
        for name in _missing(protocol, role):
            import_module(name)
    for home in filter(None, (MAIN, protocol.kernels) if {"columns", "producer"} & {*roles} else ()):
        kernels.kernel_of(home, 0)  # one that is forced by the environment is loaded at its first use
    _exercised.update(roles)
    kernels.load_beside(beside_readers)
    kernels.compile_beside(compile_beside)


def beside_readers(work: Callable[[], object]) -> bool:
    """Do ``work`` in a thread of its own: neither a loop waits for it nor who polls.

    False, and nothing is done, where the interpreter ends: a thread that begins then never runs.
    """

    def run() -> None:
        with faster_thread_switches():
            work()

    if sys.is_finalizing():
        return False
    try:
        threading.Thread(target=run, name="penstock load", daemon=True).start()
    except RuntimeError:  # so Python 3.12 says that it ends
        return False
    return True


def columns_there() -> bool:
    """Whether columns can be decoded without waiting for an import."""
    return "pyarrow" in sys.modules


def functions_there() -> bool:
    """Whether Arrow's functions can be called without waiting for an import."""
    return _FUNCTIONS in sys.modules and not _under_way


def needs_import(rows: object) -> bool:
    """Whether to send ``rows``, of whatever kind, takes something that is not there yet."""
    if functions_there() and _LISTS in _exercised:
        return False
    return not _is_plain(rows) or not (functions_there() or _count(rows) < _MANY_ROWS)


async def loaded_for(rows: object) -> None:
    """Return when it is there."""
    if needs_import(rows):
        lists = not _is_plain(rows)
        await _in_passing_thread(lambda: _load_functions(lists=lists))


def start_import() -> None:
    """Begin to load Arrow's functions, for those who can do without them until they are there."""
    if not (_under_way or functions_there()):
        _under_way.add(_FUNCTIONS)
        beside_readers(_load_functions)


def _is_plain(rows: object) -> bool:
    """Whether these are columns that are sent as they are."""
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

            pa.array([b""])  # Arrow asks for pandas when it meets the first list
            _exercised.add(_LISTS)
    finally:
        _under_way.clear()


async def _in_passing_thread(work: Callable[[], None]) -> None:
    """As ``asyncio.to_thread``, by a thread that does not stay."""
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
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, error)

    if not beside_readers(run):
        run()
    await done


def _missing(protocol: WireProtocol, role: str) -> list[str]:
    wanted = [*_ALWAYS, *_OF_ROLES.get(role, ()), *protocol.loads.get(role, ())]
    return wanted if role not in _exercised else [name for name in wanted if name not in sys.modules]
