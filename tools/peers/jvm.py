"""Java on this machine: its command, ports for servers that must be told theirs, and the end of a process, by handle.

What must not live here: servers that come and go (``java_server``).
"""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from tools.peers.maven import Unavailable

END_WITHIN_S = 20.0
_TRIES = 1_000

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


def free_ports(count: int) -> range:
    """So many in a row, free now, and below what systems hand out by themselves.

    So a server that is down for a while finds its port again. Raises Unavailable.
    """
    for _ in range(_TRIES):
        ports = range(first := random.randrange(16_000, 32_000 - count), first + count)
        with ExitStack() as held, suppress(OSError):
            for port in ports:
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ports
    raise Unavailable(f"no {count} free ports in a row")


def end(process: subprocess.Popen[bytes]) -> None:
    """SIGTERM, then SIGKILL for one that does not listen."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
