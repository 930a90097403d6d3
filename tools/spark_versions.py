"""Runs the Spark tests with another PySpark than the pinned one: ``./dev shell python -m tools.spark_versions 4.2.0``.

The other PySpark is in its own environment below ``~/.cache/penstock``, which the first run creates; all other packages
come from the environment that runs this. Further arguments go to pytest; without any, all of tests/spark except the
demo is run.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from tools.console import Stop, say, timed

__all__ = ["environment", "main"]

ROOT = Path(__file__).resolve().parent.parent
CACHE = Path.home() / ".cache" / "penstock"
TESTS = ("tests/spark", "--ignore=tests/spark/test_demo_load.py", "--ignore=tests/spark/test_demo_kill.py")


def environment(version: str) -> Path:
    """The Python that imports this PySpark, and all other packages from the current environment."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise Stop(f"'{version}' is no version of PySpark; wanted is one like 4.2.0")
    home = CACHE / f"pyspark-{version}-python{sys.version_info.major}.{sys.version_info.minor}"
    python = home / "bin" / "python"
    with_pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "-q", "--no-deps"]
    if not (home / "ready").exists():
        with timed(f"making {home.name}"):
            venv.EnvBuilder(with_pip=False, symlinks=True, clear=True).create(home)
            if subprocess.run([*with_pip, f"pyspark=={version}"], check=False).returncode:
                raise Stop(f"pip could not install pyspark {version}")
            (home / "ready").touch()
    # After the environment's own packages; written each time, since this may be another checkout's environment.
    (own,) = home.glob("lib/python*/site-packages")
    (own / "zz_the_rest.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


def main(words: list[str]) -> int:
    if not words:
        raise Stop("which version? python -m tools.spark_versions 4.2.0 [pytest's arguments]")
    python = environment(words[0])
    chosen = {
        "PYSPARK_PYTHON": str(python),
        "PYSPARK_DRIVER_PYTHON": str(python),
        "PYTHONPATH": os.pathsep.join([str(ROOT / "src"), str(ROOT)]),
    }
    kept = {name: text for name, text in os.environ.items() if name != "SPARK_HOME"}
    say(f"tests with PySpark {words[0]}")
    command = [str(python), "-m", "pytest", *(words[1:] or TESTS)]
    return subprocess.run(command, cwd=ROOT, env={**kept, **chosen}, check=False).returncode


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except Stop as stop:
        say(str(stop))
        sys.exit(2)
