"""Environments as a cluster gets them: packed for ``--archives``, as nodes have them, and a zip for ``--py-files``.

As venv-pack makes them: the Python itself has to be at the same place everywhere, packages travel. They are those that
penstock's own metadata asks for, without PySpark, which workers have. What must not live here: Spark.
"""

from __future__ import annotations

import os
import shutil
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NAME = "environment"


def make(folder: Path, *, with_penstock: bool) -> Path:
    """An environment called ``environment`` below ``folder``."""
    made = folder / NAME
    venv.EnvBuilder(with_pip=False, symlinks=True).create(made)
    (packages,) = made.glob("lib/python*/site-packages")
    for each in sorted(_files()):
        target = packages / each[1]
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            _link(each[0] / each[1], target)
    if with_penstock:
        shutil.copytree(ROOT / "src", packages, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    return made


def pack(environment: Path) -> Path:
    """It as an archive. Spark unpacks a plain ``.tar`` by itself, and refuses the link to the Python in that."""
    packed = environment.with_suffix(".tar.gz")
    with tarfile.open(packed, "w:gz", compresslevel=1) as archive:
        for each in sorted(environment.iterdir()):
            archive.add(each, each.name)
    return packed


def zipped(target: Path) -> Path:
    """penstock alone."""
    with zipfile.ZipFile(target, "w") as archive:
        for each in sorted((ROOT / "src").rglob("*")):
            if each.is_file() and "__pycache__" not in each.parts:
                archive.write(each, each.relative_to(ROOT / "src"))
    return target


def _files() -> Iterator[tuple[Path, Path]]:
    """(where packages are, a file's place in there), of all that penstock needs."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    waiting = [*project["dependencies"], *project["optional-dependencies"]["spark"]]
    known = {"pyspark"}
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


def _link(source: Path, target: Path) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system
        shutil.copy2(source, target)


if __name__ == "__main__":
    print(pack(make(Path(sys.argv[1]), with_penstock=True)))
