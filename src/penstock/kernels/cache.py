"""Where compiled kernels are kept, so that a machine compiles them once (16 to 21 s), and one process at a time does.

The first of these places that can be written, and that nobody else can have written to: what lies there is run.

1. ``$XDG_CACHE_HOME/penstock`` or ``~/.cache/penstock``;
2. ``penstock-<user id>`` in the folder for temporary files (``TMPDIR``), only its owner's;
3. the same in Spark's local folders, which a container without either has.

Below it is a folder named after numba's version and the kernels' sources: a compiled function does not notice when a
function it has inlined changes, the folder's name does. What must not live here: numba; it is not imported to look.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib.util
import logging
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from importlib import metadata
from importlib.resources import files
from pathlib import Path
from typing import Any

# Not on Windows: there every process compiles for itself until one is through.
fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None

__all__ = ["folder", "in_turn", "is_warm", "kept", "places"]

_log = logging.getLogger("penstock.kernels")


@functools.cache
def folder() -> Path | None:
    """The folder of this process; None if there is none that can be used: then every process compiles for itself."""
    found = kept(_digest(), os.environ)
    if found is None:
        _log.warning(
            "compiled kernels can be kept nowhere, so that this process compiles them itself, some 20 s: "
            "let the user own a folder that can be written, and name it in XDG_CACHE_HOME or TMPDIR"
        )
    return found


def kept(name: str, environment: Mapping[str, str]) -> Path | None:
    """The folder ``name``, in the first place that can be used. Says so, once a machine, if that is not the first."""
    home, *others = places(environment)
    if _usable(home) and _writable(home / "numba" / name):
        return home / "numba" / name
    for place in others:
        new = not (place / "numba" / name).exists()
        if _usable(place) and _writable(place / "numba" / name):
            if new:
                _log.warning("compiled kernels are kept in %s: %s cannot be used (XDG_CACHE_HOME)", place, home)
            return place / "numba" / name
    return None


def places(environment: Mapping[str, str]) -> list[Path]:
    """All places, best first."""
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or _home()) / ".cache"
    # In this order: YARN's containers, then what Spark tells its executors.
    sparks = (environment.get(name, "") for name in ("LOCAL_DIRS", "SPARK_EXECUTOR_DIRS", "SPARK_LOCAL_DIRS"))
    temporary = [environment.get("TMPDIR", ""), _temporary()]
    temporary += [part for each in sparks for part in each.replace(os.pathsep, ",").split(",")]
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    return [Path(home) / "penstock", *(Path(each) / f"penstock-{user}" for each in dict.fromkeys(temporary) if each)]


def is_warm(part: str) -> bool:
    """Whether a part of the kernels has been compiled here before, by this Python and from this installation."""
    place = folder()
    return place is not None and _mark(place, part).exists()


@contextlib.contextmanager
def in_turn(part: str) -> Iterator[None]:
    """Around the first import of a part: of several processes one compiles it, the others wait and load it.

    A Spark executor starts as many workers as it has cores, and all of them meet their first records at once.
    """
    place = folder()
    if place is None or _mark(place, part).exists():
        yield
        return
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            lock = held.enter_context((place / "lock").open("w"))
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)  # whoever has it gives it back by dying, too
        yield
        with contextlib.suppress(OSError):
            _mark(place, part).touch()


def _mark(place: Path, part: str) -> Path:
    of = f"{Path(__file__).parent} {sys.version_info[:2]} {part}"
    return place / f"compiled-{hashlib.sha256(of.encode()).hexdigest()[:12]}"


def _digest() -> str:
    try:
        version = metadata.version("numba")
    except metadata.PackageNotFoundError:  # it lies on the path without having been installed
        version = __import__("numba").__version__
    digest = hashlib.sha256(version.encode())
    sources = [each for each in files("penstock.kernels").joinpath("_numba").iterdir() if each.name.endswith(".py")]
    for source in sorted(sources, key=lambda each: each.name):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _usable(place: Path) -> bool:
    """Make it, and look whether anybody else could have put something there, or could put another in its stead."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=0o700)
        if not hasattr(os, "geteuid"):
            return place.is_dir()
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
            return False
        # Of a name in a folder for everybody, groups are no better than others.
        if found.st_mode & stat.S_IWGRP and place.parent.stat().st_mode & stat.S_IWOTH:
            return False
        return all(_is_safe(each) for each in place.resolve().parents)
    except OSError:
        return False


def _is_safe(above: Path) -> bool:
    """Whether nobody but us and the system can rename what is in it."""
    found = above.stat()
    systems = {0, os.geteuid(), Path("/").stat().st_uid}  # in a user namespace, root has another number
    return found.st_uid in systems and (not found.st_mode & stat.S_IWOTH or bool(found.st_mode & stat.S_ISVTX))


def _writable(place: Path) -> bool:
    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user id without a name, as containers have
        return Path("/")


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return ""
