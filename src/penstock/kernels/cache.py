"""Where compiled kernels are stored, so that a machine compiles them once (16 to 21 s), in one process at a time.

Stored code is executed, so only places count that no other user can have written to. The first usable one is taken:

1. ``$PENSTOCK_CACHE_DIR``, which may be read-only if it has kernels for this processor already; an image of a
   container gets them by ``python -m penstock.kernels.warm --to FOLDER``;
2. ``$XDG_CACHE_HOME/penstock`` or ``~/.cache/penstock``;
3. ``penstock-<user id>`` in the folder for temporary files (``TMPDIR``), accessible to its owner only;
4. the same in Spark's local folders, for containers without the others.

Below it is a folder for each home of kernels (the main one, or a protocol's). Its name is a digest of numba's version,
the kernels' sources, the Python and the processor, because numba does not notice when a function that it has inlined
changes. A mark file in the folder has the digest of each file. Files that have changed since are not used, as one wrong
byte in compiled code can crash the process. numba is never imported just to look, and other imports are local, because
short reads need none of this.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import itertools
import logging
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

# Not on Windows, where every process compiles for itself until one has finished.
fcntl: Any = importlib.import_module("fcntl") if importlib.util.find_spec("fcntl") else None

__all__ = ["MAIN", "NAMED", "being_compiled", "folder", "forget_unmarked", "in_turn", "is_warm", "kept", "places"]

NAMED: Final = "PENSTOCK_CACHE_DIR"

MAIN: Final = "penstock.kernels"
"""The home of the kernels for all protocols. Every home is a package with `_pure` and `_numba` in it."""

_log = logging.getLogger("penstock.kernels")


@functools.cache
def folder(home: str) -> Path | None:
    """Where this process stores a home's kernels; None if nowhere, so that every process compiles for itself."""
    if home != MAIN and folder(MAIN) is None:
        return None  # logged already
    found = kept(_digest(home), os.environ)
    if found is None:
        _log.warning(
            "compiled kernels can be kept nowhere, so that every process does without them or compiles its own (20 s): "
            "let the user own a folder that can be written, and name it in XDG_CACHE_HOME or TMPDIR, "
            "or one that has them already in PENSTOCK_CACHE_DIR"
        )
    return found


def kept(name: str, environment: Mapping[str, str]) -> Path | None:
    """Return the folder ``name`` in the first usable place. Logs once per machine if that is not the first place."""
    if named := environment.get(NAMED):
        place = Path(named)
        if _is_filled(place, name) or (_usable(place, mode=0o755) and _writable(place / "numba" / name)):
            return place / "numba" / name
        _log.warning(
            "%s=%s can be written to by others, or can be written to by nobody and has no kernels, or damaged ones, "
            "for this processor, Python and version of penstock: it is not used",
            NAMED,
            place,
        )
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
    """All places but a named one, best first."""
    home = environment.get("XDG_CACHE_HOME") or Path(environment.get("HOME") or _home()) / ".cache"
    # In this order: YARN's containers, then what Spark passes to its executors.
    sparks = (environment.get(name, "") for name in ("LOCAL_DIRS", "SPARK_EXECUTOR_DIRS", "SPARK_LOCAL_DIRS"))
    temporary = [environment.get("TMPDIR", ""), _temporary()]
    temporary += [part for each in sparks for part in each.replace(os.pathsep, ",").split(",")]
    user = os.geteuid() if hasattr(os, "geteuid") else 0
    return [Path(home) / "penstock", *(Path(each) / f"penstock-{user}" for each in dict.fromkeys(temporary) if each)]


def is_warm(home: str) -> bool:
    """Whether a home's kernels were compiled here, by this Python and from this installation, and are unchanged."""
    place = folder(home)
    if place is None or _is_whole(place):
        return place is not None
    if _mark(place).exists():
        _tell_damaged(place.parent)
    return False


@contextlib.contextmanager
def in_turn(home: str) -> Iterator[None]:
    """Wrap the first import of a home's kernels: one of several processes compiles, the others wait and load.

    A Spark executor starts as many workers as it has cores, and all of them reach their first records at once.
    """
    place = folder(home)
    if place is None or _is_whole(place):
        yield
        return
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError):
            lock = held.enter_context((place / "lock").open("w"))
            if fcntl is not None:
                fcntl.flock(lock, fcntl.LOCK_EX)  # the system releases it when its process ends
        if _mark(place).exists() and not _is_whole(place):
            _tell_damaged(place.parent)
            _clear(place)
        yield
        with contextlib.suppress(OSError):
            _write_mark(place)


def forget_unmarked(home: str) -> bool:
    """Delete compiled files without a mark: their process ended too early, and one may be incomplete.

    Returns whether there were any.
    """
    place = folder(home)
    return place is not None and not _mark(place).exists() and _clear(place)


def being_compiled(home: str) -> bool:
    """Whether a process is compiling now."""
    place = folder(home)
    if place is None or fcntl is None:
        return False
    try:
        with (place / "lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        pass
    return False


def _mark(place: Path) -> Path:
    return place / "compiled"


def _code(place: Path) -> list[Path]:
    """numba's files: one index per function, and the code files that it names."""
    return sorted(each for each in place.iterdir() if each.suffix in {".nbi", ".nbc"})


def _digests(place: Path) -> str:
    import hashlib

    return "".join(f"{hashlib.sha256(each.read_bytes()).hexdigest()} {each.name}\n" for each in _code(place))


def _write_mark(place: Path) -> None:
    new = place / f"compiled.{os.getpid()}"
    new.write_text(_digests(place), encoding="utf-8")
    new.replace(_mark(place))


def _is_whole(place: Path) -> bool:
    """Whether compiling has finished, and no file has changed since."""
    try:
        return _mark(place).read_text(encoding="utf-8") == _digests(place)
    except (OSError, ValueError):
        return False


@functools.cache
def _tell_damaged(place: Path) -> None:
    _log.warning("compiled kernels in %s are damaged: they are compiled again", place)


def _clear(place: Path) -> bool:
    """Delete the compiled files; return whether there were any that could be deleted."""
    found = False
    with contextlib.suppress(OSError):
        for each in [_mark(place), *_code(place)]:
            found = each.exists()
            each.unlink(missing_ok=True)
    return found


def _is_filled(place: Path, name: str) -> bool:
    """Whether kernels for this processor are there, written by us or by the system."""
    found = place / "numba" / name
    try:
        every = [each.lstat() for each in (place, found.parent, found, _mark(found))]
        mine = all(each.st_uid in _systems() and not each.st_mode & stat.S_IWOTH for each in every)
        return mine and all(_is_safe(each) for each in place.resolve().parents) and _is_whole(found)
    except (OSError, AttributeError):
        return False


@functools.cache
def _machine() -> str:
    """The conditions of compiled code: the Python, and the processor's name and features."""
    import hashlib
    import platform

    facts = [sys.implementation.cache_tag or "", platform.machine(), platform.processor()]
    facts += [os.environ.get(name, "") for name in ("NUMBA_CPU_NAME", "NUMBA_CPU_FEATURES")]
    facts += ["-OO"] if sys.flags.optimize > 1 else []  # without docstrings, numba confuses functions
    with contextlib.suppress(OSError), Path("/proc/cpuinfo").open(encoding="utf-8", errors="replace") as result:
        first = itertools.takewhile(str.strip, result)
        facts += [line for line in first if line.startswith(("model name", "flags", "Features", "CPU part"))]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _digest(home: str) -> str:
    import hashlib
    from importlib import metadata
    from importlib.resources import files

    try:
        version = metadata.version("numba")
    except metadata.PackageNotFoundError:  # it is on the path without being installed
        try:
            version = __import__("numba").__version__
        except Exception:  # whatever it raises, such a numba compiles nothing
            version = ""
    digest = hashlib.sha256(f"{version} {_machine()}".encode())
    for package in dict.fromkeys((MAIN, home)):
        # The interface's tables are compiled in: code for an older interface would read past the columns of this one.
        beside = [each for each in files(package).iterdir() if each.name == "interface.py"]
        compiled = [each for each in files(package).joinpath("_numba").iterdir() if each.name.endswith(".py")]
        sources = [*beside, *compiled]
        for source in sorted(sources, key=lambda each: each.name):
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]


def _usable(place: Path, mode: int = 0o700) -> bool:
    """Create it, and check that no other user can have put files there, or can replace it."""
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            place.mkdir(mode=mode)
        if not hasattr(os, "geteuid"):
            return place.is_dir()
        found = place.lstat()
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & stat.S_IWOTH:
            return False
        # In a folder that is open to all users, group members count as others.
        if found.st_mode & stat.S_IWGRP and place.parent.stat().st_mode & stat.S_IWOTH:
            return False
        return all(_is_safe(each) for each in place.resolve().parents)
    except OSError:
        return False


def _is_safe(above: Path) -> bool:
    """Whether only we and the system can rename its entries."""
    found = above.stat()
    return found.st_uid in _systems() and (not found.st_mode & stat.S_IWOTH or bool(found.st_mode & stat.S_ISVTX))


def _systems() -> set[int]:
    """Root, which has another number in a user namespace, and us."""
    return {0, os.geteuid(), Path("/").stat().st_uid}


def _writable(place: Path) -> bool:
    import tempfile

    try:
        place.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=place):
            return True
    except OSError:
        return False


def _home() -> Path:
    try:
        return Path.home()
    except RuntimeError:  # a user id without a name, as in containers
        return Path("/")


def _temporary() -> str:
    import tempfile

    try:
        return tempfile.gettempdir()
    except FileNotFoundError:
        return ""
