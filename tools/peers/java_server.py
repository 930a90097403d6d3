"""A server that runs on Java: it can be started and ended many times with the same folder, port and log.

Processes are ended by handle, never by name.
"""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tools.peers import jvm
from tools.peers.maven import Unavailable

__all__ = ["JavaServer", "start_together"]

READY_WITHIN_S = 90.0
_LOOK_EVERY_S = 0.05


@dataclass(slots=True, kw_only=True)
class JavaServer:
    """``line`` starts it, in ``home``; ``ready`` raises OSError while it does not serve yet.

    ``port`` is 0 if the server chooses it. ``environment`` replaces the caller's, if it is given. A ``with`` block runs
    the server, and kills it at the end.
    """

    name: str
    home: Path = field(repr=False)
    line: Sequence[str] = field(repr=False)
    ready: Callable[[], object] = field(repr=False)
    host: str = "127.0.0.1"
    port: int = 0
    environment: Mapping[str, str] | None = field(default=None, repr=False)
    process: subprocess.Popen[bytes] | None = field(default=None, repr=False)

    @property
    def endpoint(self) -> str:
        """``host:port``."""
        return f"{self.host}:{self.port}"

    @property
    def log(self) -> Path:
        """The file with its output, of all its starts."""
        return self.home / f"{self.name}.log"

    @property
    def runs(self) -> bool:
        """Whether it was started, and not stopped or killed since; a frozen server counts as running."""
        return self.process is not None

    @property
    def pid(self) -> int:
        """The id of the running process. Raises RuntimeError if there is none."""
        return self._running().pid

    def start(self) -> None:
        """Start it and wait until it serves; it keeps the data of earlier starts. Raises Unavailable."""
        self.launch()
        self.await_ready()

    def launch(self) -> None:
        """The first half of ``start``, for a caller that does something else before it waits."""
        with self.log.open("ab") as sink:
            self.process = subprocess.Popen(
                self.line,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=sink,
                cwd=self.home,
                env=self.environment,
                start_new_session=True,
            )

    def await_ready(self) -> None:
        """The second half of ``start``. If it ends or does not become ready, it is stopped; raises Unavailable with the
        end of its log."""
        try:
            self._await_ready(self._running())
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Send SIGTERM, so that it can flush, and SIGKILL if it does not end. Does nothing if it does not run."""
        if self.process is not None:
            self.process.send_signal(signal.SIGCONT)  # a frozen process would not handle the other signal
            jvm.end(self.process)
            self.process = None

    def kill(self) -> None:
        """Send SIGKILL, also to a frozen process; unwritten data is lost. Does nothing if it does not run."""
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None

    def freeze(self) -> None:
        """Send SIGSTOP: its connections stay, the kernel still accepts bytes, but there are no responses."""
        self._running().send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        self._running().send_signal(signal.SIGCONT)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _running(self) -> subprocess.Popen[bytes]:
        if self.process is None:
            raise RuntimeError(f"{self.name} in {self.home} does not run")
        return self.process

    def _await_ready(self, process: subprocess.Popen[bytes]) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while True:
            try:
                self.ready()
                return
            except OSError as error:
                trouble = str(error)
            if process.poll() is not None:
                trouble = f"it ended with {process.returncode}"
            elif time.monotonic() < deadline:
                time.sleep(_LOOK_EVERY_S)
                continue
            tail = self.log.read_text(encoding="utf-8", errors="replace")[-1500:]
            raise Unavailable(f"{self.name} did not get ready ({trouble}); its log ends:\n{tail}")


def start_together(servers: Sequence[JavaServer]) -> None:
    """Start all together, and wait until each serves. Raises Unavailable; the caller ends those that run then."""
    for server in servers:
        server.launch()
    for server in servers:
        server.await_ready()
