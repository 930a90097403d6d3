"""Java processes: how one is called, started, waited for and ended. Ended by pid, never by name."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from tools.peers.maven import Unavailable

READY_WITHIN_S = 90.0
END_WITHIN_S = 20.0

# C1 only and the serial collector: up in half the time and half the memory, and slow under load. For tests, not bench.
QUICK = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Xshare:auto")


def java() -> str:
    """The java command. Raises Unavailable."""
    home = os.environ.get("JAVA_HOME")
    if home and (Path(home) / "bin" / "java").exists():
        return str(Path(home) / "bin" / "java")
    found = shutil.which("java")
    if found is None:
        raise Unavailable("no Java (JAVA_HOME, PATH)")
    return found


def command(
    lib: Path, main: str, arguments: Sequence[str], *, heap: str = "512m", flags: Sequence[str] = ()
) -> list[str]:
    """``main`` with every jar of ``lib``. Logs at WARN unless PEER_LOG says otherwise."""
    level = os.environ.get("PEER_LOG", "warn")
    fixed = [*everywhere(), f"-Dorg.slf4j.simpleLogger.defaultLogLevel={level}"]
    return [java(), f"-Xmx{heap}", *fixed, *flags, "-cp", f"{lib}/*", main, *arguments]


def everywhere() -> list[str]:
    """Options of every JVM: loopback is IPv4, and what one that is killed leaves lies in our own temporary folder."""
    return ["-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={tempfile.gettempdir()}", "-XX:-UsePerfData"]


def free_port() -> int:
    """A loopback port that was free a moment ago; for servers that cannot be told to take port 0."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def server(line: Sequence[str], home: Path, log: Path, ready: Callable[[], None]) -> Iterator[subprocess.Popen[bytes]]:
    """Run a server in ``home`` until the block ends. ``ready`` raises OSError while it does not answer yet.

    Raises Unavailable, with the end of its log, when it ends or stays silent instead of getting ready.
    """
    process = start(line, home, log, ready)
    try:
        yield process
    finally:
        end(process)


def start(
    line: Sequence[str],
    home: Path,
    log: Path,
    ready: Callable[[], None],
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """``server`` for a caller that ends it himself, and perhaps starts it again."""
    process = launch(line, home, log, environment)
    try:
        await_ready(process, log, ready)
    except BaseException:
        end(process)
        raise
    return process


def launch(
    line: Sequence[str], home: Path, log: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """``start`` for a caller that has several to start, and waits for all of them then."""
    with log.open("ab") as sink:
        return subprocess.Popen(
            line, stdin=subprocess.DEVNULL, stdout=sink, stderr=sink, cwd=home, env=environment, start_new_session=True
        )


def await_ready(process: subprocess.Popen[bytes], log: Path, ready: Callable[[], None]) -> None:
    """Raises Unavailable, with the end of its log, when it ends or stays silent instead of getting ready."""
    deadline = time.monotonic() + READY_WITHIN_S
    while True:
        try:
            return ready()
        except OSError as error:
            trouble = str(error)
        if process.poll() is not None:
            trouble = f"it ended with {process.returncode}"
        elif time.monotonic() < deadline:
            time.sleep(0.05)
            continue
        tail = log.read_text(encoding="utf-8", errors="replace")[-1500:]
        raise Unavailable(f"the server did not get ready ({trouble}); its log ends:\n{tail}")


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL for one that does not listen."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
