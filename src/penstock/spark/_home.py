"""A SPARK_HOME from which Spark's Python processes start quickly.

If SPARK_HOME holds ``pyspark.zip``, as PySpark's own package does, every Python process that Spark starts (five before
the first row of a stream, one more for each query) imports PySpark from that zip, without compiled files: 0.6 s each. A
home of symbolic links without the zip makes it 0.2 s: they import the installed package. A package of a few lines takes
the zip's place; through it, processes that plan streams reach ``_planners``. What must not live here: deciding when to
use it (``_session``).
"""

from __future__ import annotations

import hashlib
import shutil
import tempfile
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

from penstock.spark._planners import RUNNER

__all__ = ["quick_home"]

_LINKED = ("bin", "conf", "data", "jars", "licenses", "sbin")
_PY4J = "py4j-*.zip"
_FORM = "2"
"""Version of the home's layout; each layout has its own home."""

_GATE = f'''\
"""Imported instead of PySpark in Spark's Python processes; then imports PySpark. Made by penstock."""

import sys

sys.path[:] = [each for each in sys.path if not __file__.startswith(each + "/pyspark/")]
del sys.modules["pyspark"]
if sys.orig_argv[1:3] == ["-m", {RUNNER!r}]:
    try:
        from penstock.spark._planners import begin

        begin()
    except Exception as error:
        print("penstock: planning continues without a keeper:", error, file=sys.stderr)
import pyspark
'''


def quick_home(cache: Path | None = None) -> Path | None:
    """The home for the installed PySpark, made on first use below ``~/.cache/penstock``; None if that fails."""
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        return None
    real = Path(spec.origin).parent
    if not (real / "jars").is_dir():
        return None  # a client without Spark, or an installation with another layout
    # Another installation or version of PySpark has another path, or other jars.
    stamp = f"{_FORM} {real.resolve()} {(real / 'version.py').stat().st_mtime_ns}"
    parent = (Path.home() / ".cache" / "penstock") if cache is None else cache
    home = parent / f"spark-home-{hashlib.sha256(stamp.encode()).hexdigest()[:12]}"
    if home.is_dir():
        return home
    try:
        parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=".spark-home-", dir=parent))
    except OSError:
        return None
    try:
        _link(real, made)
        # Atomically, even if two sessions start at once.
        with suppress(OSError):
            made.rename(home)
        return home if home.is_dir() else None
    except OSError:
        return None
    finally:
        shutil.rmtree(made, ignore_errors=True)


def _link(real: Path, home: Path) -> None:
    for name in _LINKED:
        if (real / name).exists():
            (home / name).symlink_to(real / name)
    library = home / "python" / "lib"
    library.mkdir(parents=True)
    for zipped in (real / "python" / "lib").glob(_PY4J):
        (library / zipped.name).symlink_to(zipped)
    gate = library / "pyspark.zip" / "pyspark"
    gate.mkdir(parents=True)
    (gate / "__init__.py").write_text(_GATE, encoding="utf-8")
