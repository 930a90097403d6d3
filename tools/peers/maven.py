"""Jars of a pom, resolved once by mvn into the user's cache and reused from there.

mvn is used with the machine's settings. Without mvn, ``Unavailable`` is raised, and tests are skipped with it.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

POMS = Path(__file__).resolve().parent / "poms"
COMPLETE = ".complete"


class Unavailable(Exception):
    """A peer is not available on this machine; the text says what is missing."""


def caches() -> list[Path]:
    """The folders with jars; new jars go to the first. ``PENSTOCK_PEERS`` names another folder."""
    forced = os.environ.get("PENSTOCK_PEERS")
    if forced:
        return [Path(forced).expanduser()]
    cache = Path(os.environ.get("XDG_CACHE_HOME", "~/.cache")).expanduser()
    return [cache / "penstock" / "peers", cache / "penstock-peers"]


def jars(
    name: str,
    pom: str,
    properties: Mapping[str, str],
    *,
    goal: str = "dependency:copy-dependencies",
    sums: Mapping[str, str] | None = None,
) -> Path:
    """The folder ``name`` of the cache, with every jar that ``poms/<pom>`` resolves to with these properties.

    ``goal`` is for a pom that defines itself what to copy ("package"); ``sums`` are SHA-256 digests of jars, which are
    checked. It takes 3-30 s the first time. Raises Unavailable.
    """
    for cache in caches():
        if (cache / name / COMPLETE).exists():
            return cache / name
    home = caches()[0]
    home.mkdir(parents=True, exist_ok=True)
    with _alone(home / f".{name}.lock"):
        if not (home / name / COMPLETE).exists():
            _resolve(home, name, pom, properties, goal, sums or {})
    return home / name


def _resolve(
    home: Path, name: str, pom: str, properties: Mapping[str, str], goal: str, sums: Mapping[str, str]
) -> None:
    mvn = shutil.which("mvn")
    if mvn is None:
        raise Unavailable(f"no mvn on the PATH to fetch {name}")
    fresh = Path(tempfile.mkdtemp(prefix=f".{name}-", dir=home))
    definitions = [f"-D{key}={value}" for key, value in {**properties, "outputDirectory": str(fresh)}.items()]
    line = [mvn, "-B", "-q", "-f", str(POMS / pom), *definitions, goal]
    try:
        run = subprocess.run(line, capture_output=True, text=True, check=False)
        if run.returncode:
            said = next((line for line in run.stdout.splitlines() if "ERROR" in line), run.stderr[-300:])
            raise Unavailable(f"mvn could not resolve {name}: {said.strip()}")
        _verify(fresh, sums)
        (fresh / COMPLETE).touch()
        shutil.rmtree(home / name, ignore_errors=True)  # an incomplete earlier download
        fresh.rename(home / name)
    finally:
        shutil.rmtree(fresh, ignore_errors=True)


def _verify(folder: Path, sums: Mapping[str, str]) -> None:
    for jar, wanted in sums.items():
        found = hashlib.sha256((folder / jar).read_bytes()).hexdigest()
        if found != wanted:
            raise Unavailable(f"{jar} is another one than expected (SHA-256 {found})")


@contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """A lock: of two test runs that need the same jars, the second waits for the first."""
    import fcntl

    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
