"""Processes that plan streams, forked from one that has finished its imports.

Spark starts a Python process for each streaming query, and ends it with the query. Its imports take half a second of
CPU before the first batch. In a home of ``_session``, such a process calls this module before it imports PySpark:

1. The first one of a Spark application imports what it needs, forks a *keeper*, and continues as usual.
2. Each later one passes its environment and its output to the keeper, which forks a planner with the imports done, and
   waits for it to end. Spark only sees the process that it started; the planner ends with that process.

The keeper ends with Spark's JVM, or after a while without requests. If anything is not as expected (another
environment, another JVM, no keeper), the process starts as usual. This module must not import PySpark or other large
packages at the top: each planner's start would pay for it.
"""

from __future__ import annotations

import json
import os
import select
import signal
import socket
import struct
import sys
from collections.abc import Mapping
from contextlib import suppress
from typing import NoReturn

from penstock.spark._launch import TOLD

__all__ = ["RUNNER", "SWITCH", "begin"]

RUNNER = "pyspark.sql.streaming.python_streaming_source_runner"
SWITCH = "PENSTOCK_KEEP_PLANNERS"
"""Environment variable; with "false" there is no keeper."""

IDLE_S = 300.0
_PRELOADED = ("penstock.spark._source", "penstock.spark._reading", "penstock.client.ranges.range_reader", RUNNER)
_READ_LATER = ("PYSPARK_", "PYTHONHASHSEED", "PYTHON_", "SPARK_", TOLD)
"""Prefixes of variables that are read only while planning; all others must be equal to the keeper's."""

_LONGEST_PATH = 100
"""Approximate maximum length of a Unix socket's path."""

_LENGTH = struct.Struct(">I")
_YES = b"y"
_OUTPUTS = (1, 2)


def begin() -> None:
    """Must be called before PySpark is imported. Returns only in a process that must plan by itself."""
    where = _place(os.environ)
    if where is None or not hasattr(socket, "send_fds"):
        return
    stale = _handed_over(where)
    _preload(_PRELOADED)
    jvm = os.getppid()
    if os.fork() == 0:
        try:
            _keep(where, jvm, stale=stale)
        finally:
            os._exit(0)


def _place(environment: Mapping[str, str]) -> str | None:
    """The keeper's socket: in a folder of this Spark application, which Spark removes at its end."""
    folder = environment.get("SPARK_LOCAL_DIRS", "").partition(",")[0]
    path = f"{folder}/penstock-planners"
    wanted = environment.get(SWITCH, "true").lower() != "false"
    return path if folder and wanted and len(os.fsencode(path)) <= _LONGEST_PATH else None


def _handed_over(where: str) -> bool:
    """Pass the work to a keeper, and do not return then. Else returns whether a dead keeper left its socket."""
    with socket.socket(socket.AF_UNIX) as keeper:
        try:
            keeper.connect(where)
            request = json.dumps(_request()).encode()
            socket.send_fds(keeper, [_LENGTH.pack(len(request))], _OUTPUTS)
            keeper.sendall(request)
            if keeper.recv(1) != _YES:
                return False
        except OSError as error:
            return isinstance(error, ConnectionRefusedError)
        with suppress(OSError):
            keeper.recv(1)  # returns when the planner ends, which closes the connection
        os._exit(0)


def _request() -> dict[str, object]:
    return {"environment": dict(os.environ), "folder": os.getcwd(), "jvm": os.getppid(), "python": sys.executable}  # noqa: PTH109


def _preload(names: tuple[str, ...]) -> None:
    from importlib import import_module

    for name in names:
        with suppress(ImportError):
            import_module(name)
    # Spark runs this module as a program, which warns if it has already been imported.
    sys.modules.pop(RUNNER, None)


def _preload_protocols() -> None:
    """Import the modules that every address needs, while nothing waits for them."""
    from penstock.protocols import protocol, schemes

    for scheme in schemes():
        with suppress(Exception):
            protocol(scheme)


def _keep(where: str, jvm: int, *, stale: bool) -> None:
    """Fork planners for one JVM until it ends."""
    os.setsid()
    _detach()
    _pass_on_settings()
    mine = _request() | {"jvm": jvm}
    if stale:
        with suppress(OSError):
            os.unlink(where)  # noqa: PTH108 - pathlib is not needed otherwise
    with socket.socket(socket.AF_UNIX) as listener:
        os.umask(0o177)
        listener.bind(where)
        listener.listen(8)
        os.umask(0o022)
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # ended planners are reaped by the system
        _preload_protocols()
        try:
            while _wait(listener, jvm):
                connection, _ = listener.accept()
                with connection, suppress(OSError, ValueError):
                    _answer(connection, listener, mine)
        finally:
            with suppress(OSError):
                os.unlink(where)  # noqa: PTH108


def _detach() -> None:
    """Close the parent's output and descriptors, so that nothing waits for this process to close them."""
    nothing = os.open(os.devnull, os.O_RDWR)
    for each in (0, *_OUTPUTS):
        os.dup2(nothing, each)
    os.closerange(3, os.sysconf("SC_OPEN_MAX") if os.sysconf("SC_OPEN_MAX") < 1 << 16 else 1 << 16)


def _pass_on_settings() -> None:
    """Pass on Spark's settings: a forked planner is not the JVM's child, so ``_launch`` could not find them."""
    from penstock.spark._launch import settings
    from penstock.spark._settings import SETTINGS

    found = settings()
    if found is not None:
        _told[TOLD] = json.dumps({name: found[name] for name in SETTINGS if name in found})


_told: dict[str, str] = {}


def _wait(listener: socket.socket, jvm: int) -> bool:
    """Wait for a request; False if the keeper should end."""
    ended = os.pidfd_open(jvm) if hasattr(os, "pidfd_open") else None
    try:
        pause = IDLE_S if ended is not None else 1.0
        for _ in range(round(IDLE_S / pause)):
            ready, _, _ = select.select([listener.fileno(), *([] if ended is None else [ended])], [], [], pause)
            if ready:
                return ready == [listener.fileno()]
            os.kill(jvm, 0)
    except ProcessLookupError:
        return False
    finally:
        if ended is not None:
            os.close(ended)
    return False


def _answer(connection: socket.socket, listener: socket.socket, mine: Mapping[str, object]) -> None:
    """Fork a planner for the process that asks, if this one matches its request."""
    connection.settimeout(5.0)
    head, outputs, _, _ = socket.recv_fds(connection, _LENGTH.size, len(_OUTPUTS))
    try:
        (length,) = _LENGTH.unpack(head)
        request = json.loads(_exactly(connection, length))
        if _shared(request) != _shared(mine) or len(outputs) != len(_OUTPUTS):
            return
        if os.fork() == 0:
            listener.close()
            _plan(connection, outputs, request["environment"])
    finally:
        for each in outputs:
            os.close(each)


def _exactly(connection: socket.socket, length: int) -> bytes:
    found = b""
    while len(found) < length:
        more = connection.recv(length - len(found))
        if not more:
            raise OSError("hung up")
        found += more
    return found


def _shared(request: Mapping[str, object]) -> dict[str, object]:
    """The parts of a request that must be the same as the keeper's."""
    environment = request["environment"]
    assert isinstance(environment, dict)
    kept = {name: text for name, text in environment.items() if not name.startswith(_READ_LATER)}
    # A registered source names some paths twice.
    path = [*dict.fromkeys(kept.get("PYTHONPATH", "").split(os.pathsep))]
    return {**request, "environment": {**kept, "PYTHONPATH": path}}


def _plan(connection: socket.socket, outputs: list[int], environment: Mapping[str, str]) -> NoReturn:
    """Act as the process that Spark started."""
    import runpy
    import threading

    code = 1
    try:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for each, ours in zip(outputs, _OUTPUTS, strict=True):
            os.dup2(each, ours)
        os.environ.clear()
        os.environ.update({**_told, **environment})
        connection.settimeout(None)
        connection.sendall(_YES)
        threading.Thread(target=_end_with, args=(connection,), daemon=True).start()
        runpy.run_module(RUNNER, run_name="__main__", alter_sys=True)
        code = 0
    except SystemExit as ended:
        code = 0 if ended.code is None else 1
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(OSError, ValueError):
                stream.flush()
        os._exit(code)


def _end_with(connection: socket.socket) -> None:
    """End with the other end's process: it is the one that Spark started, and kills to end a query."""
    with suppress(OSError):
        connection.recv(1)
    os._exit(1)
