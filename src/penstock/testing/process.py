"""A node in its own process, for tests that kill it: with a real SIGKILL, real files, and the same port again."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from penstock.errors import UsageError
from penstock.protocols import USUAL

_STOP_SECONDS = 20.0
_READY = re.compile(r" ready: .*kafka://127\.0\.0\.1:(\d+)")


class NodeProcess:
    """``penstock snode`` on a folder; ``start`` or entering the block starts it, leaving the block ends it.

    It also ends when this process ends in any way. ``arguments`` are further arguments of ``penstock snode``.

    >>> with NodeProcess(folder) as node:           # doctest: +SKIP
    ...     Producer(node.address).send("t", value=b"x").result()
    ...     node.kill(); node.start()               # the same address again
    """

    def __init__(self, store: Path, *, flush: str = "os", arguments: tuple[str, ...] = ()) -> None:
        self._store = store
        self._flush = flush
        self._arguments = arguments
        self._process: subprocess.Popen[str] | None = None
        self._port = 0

    @property
    def address(self) -> str:
        """``kafka://127.0.0.1:PORT``."""
        return f"{USUAL}://{self.bootstrap}"

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:PORT``."""
        if not self._port:
            raise UsageError("the node has not been started")
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """The process id of the running node."""
        return self._running().pid

    def start(self) -> None:
        """Start and wait for the ready line, on the same port as before. Raises UsageError."""
        if self._process is not None:
            raise UsageError("the node is running already")
        listen = f"{USUAL}://127.0.0.1:{self._port}"
        command = [sys.executable, "-m", "penstock.cli", "snode", "--store", f"file:{self._store}"]
        command += ["--log-level", "warning"]
        process = subprocess.Popen(
            [*command, "--listen", listen, "--flush", self._flush, "--until-stdin-closes", *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        self._process = process
        ready = _READY.search(process.stdout.readline())
        if ready is None:
            code = self._end(None)
            raise UsageError(f"the node did not start (exit code {code})", hint="It says why on standard error")
        self._port = int(ready[1])

    def kill(self) -> None:
        """Send SIGKILL; acknowledged records stay in the files."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """Send SIGTERM and wait until the node has drained; returns its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals | None) -> int:
        process = self._running()
        if how is not None:
            process.send_signal(how)
        elif process.stdin is not None:
            process.stdin.close()  # this ends the node if it still runs
        try:
            code = process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None
        return code

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None:
            raise UsageError("the node is not running")
        return self._process

    def __enter__(self) -> NodeProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()
