"""Java on this machine: its command, free ports for servers, and the end of a process, by handle.

``java_server`` has servers that can be restarted.
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

# C1 only and the serial collector: start in half the time with half the memory, but slow under load. Not for bench.
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
    """Options of every JVM: loopback is IPv4, and temporary files of a killed JVM are in our own temporary folder."""
    return ["-Djava.net.preferIPv4Stack=true", f"-Djava.io.tmpdir={tempfile.gettempdir()}", "-XX:-UsePerfData"]


def free_ports(count: int) -> range:
    """So many consecutive ports, free now, and below the range from which systems assign ports themselves.

    So the port of a server that is down stays free. Raises Unavailable.
    """
    for _ in range(_TRIES):
        ports = range(first := random.randrange(16_000, 32_000 - count), first + count)
        with ExitStack() as held, suppress(OSError):
            for port in ports:
                held.enter_context(socket.socket()).bind(("127.0.0.1", port))
            return ports
    raise Unavailable(f"no {count} free ports in a row")


def end(process: subprocess.Popen[bytes]) -> None:
    """Send SIGTERM, then SIGKILL if the process does not end."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(END_WITHIN_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
