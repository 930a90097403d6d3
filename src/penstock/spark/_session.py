"""Makes Spark sessions with the best settings for our source, and registers the source with other sessions.

Other sessions work too, but are slower: without Unix sockets between the JVM and Python every task loses about 40 ms
to delayed acknowledgements.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping, MutableMapping
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import penstock
from penstock.extras import refusal
from penstock.spark._launch import MASTER, TOLD
from penstock.spark._planners import RUNNER
from penstock.spark._settings import FILTERS, SETTINGS, UNIX_SOCKETS

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["quick_home", "register", "session"]

# A SPARK_HOME from which Spark's Python processes start quickly.
#
# If SPARK_HOME has ``pyspark.zip``, as PySpark's own package does, every Python process that Spark starts (five before
# the first row of a stream, one more for each query) imports PySpark from that zip, without compiled files: 0.6 s each.
# In a home of symbolic links without the zip it is 0.2 s, because they import the installed package. A package of a
# few lines replaces the zip; through it, processes that plan streams reach ``_planners``.
_LINKED = ("bin", "conf", "data", "jars", "licenses", "sbin")
_PY4J = "py4j-*.zip"
_FORM = "2"
"""Version of the home's layout. Each version has its own home."""

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


_SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the program it runs: the port of the JVM that is already running."""

EVERYWHERE: Mapping[str, str] = {
    UNIX_SOCKETS: "true",
    FILTERS: "true",
    "spark.sql.session.timeZone": "UTC",
}
"""Settings for laptops and clusters. Timestamps of records are UTC; a local time zone would only cause mistakes."""

LOCALLY: Mapping[str, str] = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.sql.catalogImplementation": "in-memory",  # the default writes a Derby database into the working directory
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""For ``local[…]`` masters: listen only on loopback, leave nothing in the working directory."""


def session(app_name: str = "penstock", master: str | None = None, **conf: object) -> SparkSession:
    """Make (or get) a session with Unix sockets, UTC and, for local masters, settings for one machine.

    ``master`` is by default ``local[*]``, or the master of ``spark-submit`` if that runs the program.

    ``conf`` overrides any setting: ``session(**{"spark.driver.memory": "4g"})``. Settings that Spark reads only from
    the environment are set there, unless they already are (``PYSPARK_UDS_MODE``, ``PYSPARK_PYTHON``, ``PYTHONPATH``;
    for local masters ``SPARK_LOCAL_IP`` and a ``SPARK_HOME`` from which Python starts quickly). Spark then finds
    ``format("penstock")`` by itself; for other masters it is registered as well. A session that is already running is
    returned as it is (only ``conf`` is set in it), with a warning if it has no Unix sockets. If this machine has no
    compiled kernels yet, they are compiled in the background, on one core for some 20 s.
    """
    try:
        from pyspark.sql import SparkSession
    except ModuleNotFoundError:
        raise refusal("spark", "penstock.spark.session()") from None

    if master is None and _SUBMITTED not in os.environ:
        master = "local[*]"
    local = master is not None and master.startswith("local")
    _prepare_environment(local=local)
    running = SparkSession.getActiveSession()
    if local and running is None:
        _compile_kernels_meanwhile()
    settings = {name: _text(value) for name, value in conf.items()}
    builder = SparkSession.builder
    if running is None:  # a running session would report these without obeying them, or change against its owner's will
        builder = builder.appName(app_name) if master is None else builder.appName(app_name).master(master)
        settings = {**EVERYWHERE, **(_sized_for_this_machine(master) if master and local else {}), **settings}
    for name, text in settings.items():
        builder = builder.config(name, text)
    spark = builder.getOrCreate()
    if running is not None and spark.conf.get(UNIX_SOCKETS, "false") != "true":
        warnings.warn(
            f"this Spark session was started without {UNIX_SOCKETS}=true: every Python task loses about 40 ms; "
            "stop it and start again through penstock.spark.session()",
            stacklevel=2,
        )
    if not local and not _master(spark).startswith("local"):
        register(spark)
    return spark


def register(spark: SparkSession) -> None:
    """Register ``format("penstock")`` with this session, to run with the Python and the ``--py-files`` of its tasks.

    Not needed on one machine: Spark finds the format by itself if the module ``pyspark_penstock`` is on the path of its
    Python processes. Needed on a cluster, where Spark runs a format that it found by itself with the driver's Python.
    """
    from penstock.spark._source import PenstockDataSource

    if (context := _context()) is not None:
        given = context.getConf()
        result = {name: str(given.get(name)) for name in SETTINGS if given.contains(name)}
        context.environment[TOLD] = json.dumps(result)
        # A stream's planner looks for --py-files in the wrong place (seen in 4.3.0).
        _add_own_home(context.environment)
        _warn_if_missing(context.pythonExec, result.get(MASTER, ""))
    spark.dataSource.register(PenstockDataSource)


def _context() -> SparkContext | None:
    """This process's SparkContext; a client of Spark Connect has none."""
    from pyspark import SparkContext

    return SparkContext._active_spark_context


def _master(spark: SparkSession) -> str:
    return str(spark.conf.get(MASTER, "local"))


def _warn_if_missing(python: str, master: str) -> None:
    """Warn if the driver lacks that Python: its path may be in ``--archives``, which Spark unpacks only for tasks."""
    if os.sep in python and not Path(python).exists() and not master.startswith("local"):
        folder = Path(python).parts[0] if not Path(python).is_absolute() else None
        how = f"; to fix that: ln -s {sys.prefix} {folder}" if folder else ""
        warnings.warn(
            f"PYSPARK_PYTHON is {python}, which the driver lacks: it plans with the Python that tasks run with{how}",
            stacklevel=3,
        )


def _prepare_environment(*, local: bool) -> None:
    os.environ.setdefault("PYSPARK_UDS_MODE", "true")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        if "SPARK_HOME" not in os.environ and (quick := quick_home()) is not None:
            os.environ["SPARK_HOME"] = str(quick)
    _add_own_home(os.environ)


def _add_own_home(environment: MutableMapping[str, str]) -> None:
    """Add penstock to PYTHONPATH if it is a checkout or zip, since Spark's Python processes do not inherit sys.path."""
    home = str(Path(penstock.__file__).parents[1])
    known = environment.get("PYTHONPATH", "").split(os.pathsep)
    if home not in known and Path(home).name not in {"site-packages", "dist-packages"}:
        environment["PYTHONPATH"] = os.pathsep.join([home, *filter(None, known)])


def _compile_kernels_meanwhile() -> subprocess.Popen[bytes]:
    """Compile the kernels in another process while the JVM starts; it ends at once if they are compiled already.

    The first tasks wait for it instead of compiling for themselves. It ends with this process at the latest.
    """
    # By name, because penstock.spark must not import the kernels.
    none = subprocess.DEVNULL  # without numba the process fails, which is not worth a message
    compiling = subprocess.Popen([sys.executable, "-m", "penstock.kernels.warm"], stdin=none, stdout=none, stderr=none)
    atexit.register(_end, compiling)
    return compiling


def _end(compiling: subprocess.Popen[bytes]) -> None:
    compiling.kill()
    compiling.wait()


def _sized_for_this_machine(master: str) -> dict[str, str]:
    wanted = master.removeprefix("local").strip("[]").split(",")[0]
    cores = int(wanted) if wanted.isdigit() else 1 if not wanted else os.cpu_count() or 1
    # 200 shuffle partitions, Spark's default, are 200 tasks for a few thousand rows of state.
    return {**LOCALLY, "spark.sql.shuffle.partitions": str(cores)}


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
