"""The demo's service node: a child process over the folder's store, which never outlives the demo.

The node ends when its standard input closes, which the kernel sees to also when the demo is killed. What must not live
here: topics and records.
"""

from __future__ import annotations

import queue
import subprocess
import sys
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import IO

from penstock.demo._routes import ADMIN, ROUTES, Route
from penstock.errors import ConnectionLost

__all__ = ["Node"]

_READY_S = 60.0
_STOP_S = 20.0
_SEE_LOG = "The file demo.log in the folder says why; run the demo again to go on"


class Node:
    """A running node that speaks the protocols of all routes. Use it in a ``with`` statement."""

    def __init__(self, store: Path, log: IO[bytes]) -> None:
        """Start it and wait until it is ready. Raises ConnectionLost if it ends or says nothing for a minute."""
        command = [sys.executable, "-m", "penstock.cli", "snode", "--store", f"file:{store}"]
        for route in ROUTES:
            command += ["--listen", f"{route.scheme}://127.0.0.1:0"]
        command += ["--until-stdin-closes"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        try:
            self._addresses = self._ready()
        except BaseException:
            self._kill()
            raise

    def __enter__(self) -> Node:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        try:
            self.process.wait(_STOP_S)
        finally:
            self._kill()

    def address(self, route: Route, *, topic: bool = False) -> str:
        """Where a route's clients find it: ``scheme://127.0.0.1:PORT[/topic][?options]``."""
        path = f"/{route.topic}" if topic else ""
        return f"{self._addresses[route.scheme]}{path}" + (f"?{route.options}" if route.options else "")

    @property
    def admin_address(self) -> str:
        """Where topics are made."""
        return self._addresses[ADMIN]

    def check(self) -> None:
        """Raise ConnectionLost if the node has ended: quicker than a client that gives it time to come back."""
        code = self.process.poll()
        if code is not None:
            raise ConnectionLost(f"the service node ended with code {code}", hint=_SEE_LOG)

    def _ready(self) -> Mapping[str, str]:
        output = self.process.stdout
        assert output is not None
        lines: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        threading.Thread(target=lambda: lines.put(output.readline()), daemon=True).start()
        try:
            line = lines.get(timeout=_READY_S).decode()
        except queue.Empty:
            line = ""
        words = [word.rstrip(",") for word in line.split()]
        found = {scheme: word for word in words if (scheme := word.partition("://")[0]) != word}
        if found.keys() >= {route.scheme for route in ROUTES}:
            return found
        raise ConnectionLost("the service node did not start", hint=_SEE_LOG)

    def _kill(self) -> None:
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
