"""TubeMQ's jars, our drivers compiled against them, and how both are called.

The drivers are the Java files beside this one: ``Node`` starts the servers, ``Send``, ``Pull`` and ``Balance`` drive
TubeMQ's own client and print JSON lines. They need javac, once; nothing here needs a C compiler.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tools.peers import jvm, maven

SERVER = "2.4.0"
CLIENT = "1.13.0"  # the newest that was published; the server runs with its core library
SOURCES = Path(__file__).resolve().parent / "java" / "tubemq"

# SHA-256. What these need is pinned by version in the pom.
SUMS = {
    f"tubemq-client-{CLIENT}.jar": "3a2c51d91b63d0cbdf8d9a6d8d0c2e0ac4c5f873fea2afc2bdde5ccbf978857e",
    f"tubemq-core-{CLIENT}.jar": "a277b2a0f1d0abf3b6c3dd1709a766fa2d48630d755fad2b848b8d572d298b23",
    f"tubemq-server-{SERVER}.jar": "9881defd3882c5ad4c3ad3d59d05897c2a25ce756c271eb189f1e14a02df7337",
}

# The server was written for Java 8: these are the doors it needs on 17; java.net is for Node's one address.
OPENED = (
    "--add-exports=java.base/jdk.internal.ref=ALL-UNNAMED",
    "--add-exports=java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens=java.base/java.lang=ALL-UNNAMED",
    "--add-opens=java.base/java.net=ALL-UNNAMED",
    "--add-opens=java.base/java.nio=ALL-UNNAMED",
)


def jars() -> Path:
    """Server, client and all they need: 67 jars, 28 MB. Raises maven.Unavailable."""
    versions = {"tubemq.server": SERVER, "tubemq.client": CLIENT}
    return maven.jars(f"tubemq-{SERVER}", "tubemq.xml", versions, goal="package", sums=SUMS)


def classes() -> Path:
    """Our drivers, compiled once for each state of their sources. Raises maven.Unavailable."""
    lib = jars()
    sources = sorted(SOURCES.glob("*.java"))
    settings = SOURCES / "log4j2.xml"
    state = hashlib.sha256(b"\0".join(file.read_bytes() for file in [*sources, settings])).hexdigest()[:16]
    home = maven.caches()[0]
    home.mkdir(parents=True, exist_ok=True)
    done = home / f"tubemq-drivers-{state}"
    if not done.exists():
        fresh = Path(tempfile.mkdtemp(prefix=".tubemq-drivers-", dir=home))
        try:
            shutil.copy(settings, fresh)
            _compile(sources, lib, fresh)
            fresh.rename(done)
        except OSError:  # another run was first
            if not done.exists():
                raise
        finally:
            shutil.rmtree(fresh, ignore_errors=True)
    return done


def _compile(sources: Sequence[Path], lib: Path, into: Path) -> None:
    beside = Path(jvm.java()).resolve().with_name("javac")
    javac = str(beside) if beside.exists() else shutil.which("javac")
    if javac is None:
        raise maven.Unavailable("no javac to compile the TubeMQ drivers: a JDK is needed, not only a JRE")
    line = [javac, "-nowarn", "-d", str(into), "-cp", f"{lib}/*", *map(str, sources)]
    run = subprocess.run(line, capture_output=True, text=True, check=False)
    if run.returncode:
        raise maven.Unavailable(f"the TubeMQ drivers do not compile: {run.stderr[-1500:]}")


def command(
    main: str, arguments: Sequence[str], *, heap: str = "256m", quick: bool = True, flags: Sequence[str] = ()
) -> list[str]:
    """``main``, one of our drivers or of TubeMQ's own classes, with everything on its class path."""
    made, lib = classes(), jars()
    fixed = [*jvm.everywhere(), f"-Dlog4j.configurationFile={made}/log4j2.xml", *OPENED]
    speed = jvm.QUICK if quick else ()
    return [jvm.java(), f"-Xmx{heap}", *speed, *fixed, *flags, "-cp", f"{made}:{lib}/*", main, *arguments]
