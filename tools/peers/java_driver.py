"""Drivers: small Java programs of ours that use another project's own client and report in JSON lines.

Their sources are in the folder java next to this file; each version of a source is compiled once. That needs javac;
nothing here needs a C compiler.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import shutil
import signal
import subprocess
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

from tools.peers import jvm, maven

Line = dict[str, Any]
WITHIN_S = 40.0
END_WITHIN_S = 25.0

SOURCES = Path(__file__).resolve().parent / "java"
EVERYWHERE = tuple(SOURCES / f"{name}.java" for name in ("Ages", "Loopback", "Options"))
"""Sources that are compiled with each system's drivers."""


class Driver:
    """A running driver and all lines it has printed so far (a ``body`` in a line is bytes)."""

    def __init__(self, line: Sequence[str], environment: Mapping[str, str] | None = None) -> None:
        """``environment`` replaces ours, if it is given."""
        self.process = subprocess.Popen(
            line,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
        self.lines: list[Line] = []
        self.said = b""
        self._news = threading.Condition()
        assert self.process.stdout is not None
        assert self.process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=[self.process.stdout], daemon=True),
            threading.Thread(target=self._listen, args=[self.process.stderr], daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def events(self, *kinds: str) -> list[Line]:
        """Lines of these kinds so far: ready, holding, message, sent, error, closed; some drivers have more kinds."""
        with self._news:
            return [line for line in self.lines if line["event"] in kinds]

    @property
    def messages(self) -> list[Line]:
        return self.events("message")

    @property
    def bodies(self) -> list[bytes]:
        return [line["body"] for line in self.messages]

    @property
    def holding(self) -> list[str]:
        """The partitions that are assigned to it now, with its system's names."""
        told = self.events("holding")
        return list(told[-1]["partitions"]) if told else []

    def wait(self, what: Callable[[Driver], object], timeout_s: float = WITHIN_S) -> None:
        """Wait until ``what(driver)`` is true, checked after every new line. Raises TimeoutError, also if it ends."""
        with self._news:
            done = self._news.wait_for(lambda: what(self) or self._over(), timeout_s) and what(self)
        if not done:
            kinds = [line["event"] for line in self.lines]
            told = {kind: kinds.count(kind) for kind in kinds}
            last = [line for line in self.lines if line["event"] != "message"][-5:]
            raise TimeoutError(
                f"it printed {told}, last {last}, exit {self.process.poll()}\n{self.said[-2000:].decode()}"
            )

    def wait_messages(self, count: int, timeout_s: float = WITHIN_S) -> list[Line]:
        """Wait for so many messages, and return them."""
        self.wait(lambda driver: len(driver.messages) >= count, timeout_s)
        return self.messages

    def wait_holding(self, count: int, timeout_s: float = WITHIN_S) -> list[str]:
        """Wait until so many partitions are assigned, and return them."""
        self.wait(lambda driver: len(driver.holding) == count, timeout_s)
        return self.holding

    def stop(self) -> None:
        """Send SIGTERM: it leaves its group properly."""
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        """Send SIGKILL: it does not leave its group."""
        self._end(signal.SIGKILL)

    def freeze(self) -> None:
        """Send SIGSTOP: it keeps its connections and partitions, but no longer responds."""
        self.process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Send SIGCONT."""
        self.process.send_signal(signal.SIGCONT)

    def finish(self) -> None:
        """Wait until it has received ``max`` messages, or has sent everything."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(WITHIN_S)
        self._end(signal.SIGTERM)

    def line(self, raw: bytes) -> Line | None:
        """The content of a printed line; None for other output."""
        line: Line = json.loads(raw)
        if "body" in line:
            line["body"] = base64.b64decode(line["body"])
        return line

    def write(self, text: str) -> None:
        """Write to its standard input."""
        assert self.process.stdin is not None
        self.process.stdin.write(text.encode())
        self.process.stdin.flush()

    def _end(self, how: signal.Signals) -> None:
        if self.process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()  # a producer would wait for more input
        if self.process.poll() is None:
            self.process.send_signal(how)
            self.process.send_signal(signal.SIGCONT)  # a frozen process would not handle the other signal
            try:
                self.process.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                jvm.end(self.process)
        for reader in self._readers:
            reader.join()
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                pipe.close()

    def _over(self) -> bool:
        return not self._readers[0].is_alive()

    def _read(self, pipe: IO[bytes]) -> None:
        for raw in pipe:
            line = self.line(raw) if raw.endswith(b"\n") else None  # the last line of a killed driver may be incomplete
            if line is not None:
                with self._news:
                    self.lines.append(line)
                    self._news.notify_all()
        with self._news:
            self._news.notify_all()

    def _listen(self, pipe: IO[bytes]) -> None:
        for raw in pipe:
            self.said += raw


def compiled(name: str, sources: Sequence[Path], *libs: Path, beside: Sequence[Path] = ()) -> Path:
    """The folder with the classes of ``sources``, compiled against ``libs``, and with copies of the files ``beside``.

    Raises maven.Unavailable.
    """
    every = [*EVERYWHERE, *sources]
    state = hashlib.sha256(b"\0".join(file.read_bytes() for file in [*every, *beside])).hexdigest()[:16]
    home = maven.caches()[0]
    home.mkdir(parents=True, exist_ok=True)
    done = home / f"{name}-drivers-{state}"
    if not done.exists():
        fresh = Path(tempfile.mkdtemp(prefix=f".{name}-drivers-", dir=home))
        try:
            for file in beside:
                shutil.copy(file, fresh)
            _compile(name, every, libs, fresh)
            fresh.rename(done)
        except OSError:  # another run was faster
            if not done.exists():
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return done


def _compile(name: str, sources: Sequence[Path], libs: Sequence[Path], into: Path) -> None:
    beside = Path(jvm.java()).resolve().with_name("javac")
    javac = str(beside) if beside.exists() else shutil.which("javac")
    if javac is None:
        raise maven.Unavailable(f"no javac to compile the drivers of {name}: a JDK is needed, not only a JRE")
    line = [javac, "-nowarn", "-d", str(into), "-cp", ":".join(f"{lib}/*" for lib in libs), *map(str, sources)]
    run = subprocess.run(line, capture_output=True, text=True, check=False)
    if run.returncode:
        raise maven.Unavailable(f"the drivers of {name} do not compile: {run.stderr[-1500:]}")
