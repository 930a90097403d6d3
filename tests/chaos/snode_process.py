"""A Snode in its own process, before a cluster: killed, and back on the same port."""

from __future__ import annotations

import signal
import subprocess
import sys
from types import TracebackType


class SnodeProcess:
    """``penstock snode --enode``; started on entering the block, gone after it, or when this process is."""

    def __init__(self, enode: str, listen: str, *words: str) -> None:
        self._words = ["--enode", enode, "--listen", listen, "--until-stdin-closes", *words]
        self._process: subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "penstock.cli", "snode", *self._words],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        assert " ready: " in self._process.stdout.readline()

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def _end(self, how: signal.Signals) -> None:
        assert self._process is not None
        with self._process as process:
            process.send_signal(how)
        self._process = None

    def __enter__(self) -> SnodeProcess:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            self._end(signal.SIGTERM)
