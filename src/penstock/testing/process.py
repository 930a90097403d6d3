"""A node in a process of its own, for tests that kill it: real SIGKILL, real files, the same port again."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from types import TracebackType

from penstock.errors import UsageError

_STOP_SECONDS = 20.0


class NodeProcess:
    """``penstock snode`` on a folder; started by ``start`` or on entering the block, gone after it.

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
        return f"kafka://{self.bootstrap}"

    @property
    def bootstrap(self) -> str:
        """``127.0.0.1:PORT``."""
        if not self._port:
            raise UsageError("the node has not been started")
        return f"127.0.0.1:{self._port}"

    @property
    def pid(self) -> int:
        """Of the running process."""
        return self._running().pid

    def start(self) -> None:
        """Start and wait for the ready line; after the first time on the same port."""
        listen = f"kafka://127.0.0.1:{self._port}"
        command = [sys.executable, "-m", "penstock.cli", "snode", "--store", f"file:{self._store}"]
        self._process = subprocess.Popen(
            [*command, "--listen", listen, "--flush", self._flush, *self._arguments],
            stdout=subprocess.PIPE,
            text=True,
            env=os.environ | {"PYTHONUNBUFFERED": "1"},
        )
        assert self._process.stdout is not None
        ready = self._process.stdout.readline()
        if "ready" not in ready:
            self._process.wait()
            raise UsageError(f"the node did not start: {ready.strip() or 'it said nothing'}")
        self._port = int(ready.split("kafka://127.0.0.1:")[1].split()[0].rstrip(","))

    def kill(self) -> None:
        """SIGKILL; what was acknowledged is on disk."""
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        """SIGTERM; waits until it has drained. Its exit code."""
        return self._end(signal.SIGTERM)

    def _end(self, how: signal.Signals) -> int:
        process = self._running()
        process.send_signal(how)
        try:
            code = process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            code = process.wait()
        if process.stdout is not None:
            process.stdout.close()
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
