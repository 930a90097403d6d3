"""``python -m penstock.kernels.warm [--to FOLDER]``: compile the kernels now, so that no reader has to wait for them.

If they are compiled already, it returns at once, without importing numba. ``--to`` is for a container image, or for
machines of one kind; programs find the folder by ``PENSTOCK_CACHE_DIR``. Being a command that no module imports, this
one may ask the registry which kernels protocols have.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

from penstock.errors import LocalError
from penstock.extras import need
from penstock.kernels.cache import MAIN, NAMED, folder
from penstock.kernels.choose import warm
from penstock.protocols import protocol, schemes


def homes() -> list[str]:
    """The packages with kernels: the main one, and those of protocols that have their own."""
    return [MAIN, *(home for scheme in schemes() if (home := protocol(scheme).kernels))]


def main(words: list[str]) -> str:
    """Compile; return the folder. Raises MissingExtra without numba, LocalError if the kernels cannot be kept there."""
    parser = argparse.ArgumentParser(prog="python -m penstock.kernels.warm", description="compile the kernels now")
    parser.add_argument("--to", metavar="FOLDER", help=f"keep them there; programs are told by {NAMED}")
    to = parser.parse_args(words).to
    need("fast", "compiling kernels")
    if to:
        os.environ[NAMED] = str(Path(to).resolve())
    place = folder(MAIN)
    if place is None or (to and not place.is_relative_to(os.environ[NAMED])):
        raise LocalError(
            f"compiled kernels cannot be kept in {to or 'any folder'}: we must be able to write there, and nobody else"
        )
    warm(homes())
    return str(place)


if __name__ == "__main__":
    try:
        sys.stdout.write(f"compiled kernels are in {main(sys.argv[1:])}\n")
    except LocalError as error:
        sys.exit(f"penstock: {error}")
