"""Environments with nothing but what penstock asks for, with some extras or none: links to what is installed.

They cost a second and no download. What must not live here: penstock itself, which a caller adds as it likes.
"""

from __future__ import annotations

import os
import shutil
import tomllib
import venv
from collections.abc import Collection, Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

__all__ = ["fill"]

ROOT = Path(__file__).parents[1]


def fill(made: Path, *, extras: Collection[str] = (), without: Collection[str] = ()) -> Path:
    """Make a virtual environment without pip; returns where its packages are."""
    venv.EnvBuilder(with_pip=False, symlinks=True).create(made)
    (packages,) = made.glob("lib/python*/site-packages")
    for home, place in sorted(_files(extras, without)):
        target = packages / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            _link(home / place, target)
    return packages


def _files(extras: Collection[str], without: Collection[str]) -> Iterator[tuple[Path, Path]]:
    """(where packages are, a file's place in there), of all that penstock needs."""
    waiting, known = list(_asked_for(extras)), set(without)
    while waiting:
        wanted = Requirement(waiting.pop())
        if wanted.name.lower() in known or (wanted.marker and not wanted.marker.evaluate({"extra": ""})):
            continue
        known.add(wanted.name.lower())
        try:
            found = distribution(wanted.name)
        except PackageNotFoundError:
            continue
        waiting.extend(found.requires or ())
        home = Path(str(found.locate_file("")))
        for each in found.files or ():
            if ".." not in each.parts and each.suffix != ".pyc" and (home / each).is_file():
                yield home, Path(each)


def _asked_for(extras: Collection[str]) -> Iterator[str]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    yield from project["dependencies"]
    for extra in extras:
        for line in project["optional-dependencies"][extra]:
            if line.startswith("penstock["):
                yield from _asked_for(Requirement(line).extras)
            else:
                yield line


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)
