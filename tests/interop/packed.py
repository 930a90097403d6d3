"""Environments as a cluster gets them: packed for ``--archives``, as nodes have them, and a zip for ``--py-files``.

As venv-pack makes them: the Python itself has to be at the same place everywhere, packages travel. They are those that
penstock's own metadata asks for, without PySpark, which workers have. What must not live here: Spark.
"""

from __future__ import annotations

import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

from tests.environments import fill

ROOT = Path(__file__).parents[2]
NAME = "environment"


def make(folder: Path, *, with_penstock: bool) -> Path:
    """An environment called ``environment`` below ``folder``."""
    made = folder / NAME
    packages = fill(made, extras=("spark",), without={"pyspark"})
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


if __name__ == "__main__":
    print(pack(make(Path(sys.argv[1]), with_penstock=True)))
