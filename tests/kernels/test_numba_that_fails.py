"""Compiled kernels are a gift: whatever is wrong with numba, or with what it kept, records are read without, and the
log has one line about it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import kernels
from penstock.kernels import cache
from penstock.kernels.cache import MAIN

ROOT = Path(__file__).resolve().parents[2]
BATCHES = ROOT / "tests" / "data" / "kafka" / "batches" / "segment-4.3-none.bin"

READ = """
import sys, threading
from penstock import kernels
from penstock.client.runtime import imports as _loading
from penstock.records.decoding import decode_v2
from penstock.protocols import protocol
_loading.load(protocol("kafka"), "columns")
homes = ["penstock.kernels", protocol("tubemq").kernels, protocol("rocketmq").kernels]
for home in homes * 2:
    kernels.kernel_of(home, 50 << 20)
    for thread in threading.enumerate():
        if thread.name == "penstock load":
            thread.join()
used = {kernels.kernel_of(home, 1).__name__.rpartition("_")[2] for home in homes}
print(*sorted(used), decode_v2(open(sys.argv[1], "rb").read()).batch.num_rows)
"""


def read(*switches: str, path: Path | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {name: value for name, value in os.environ.items() if name not in {"PENSTOCK_KERNEL", "PENSTOCK_CACHE_DIR"}}
    given = os.pathsep.join(map(str, (*((path,) if path else ()), ROOT / "src")))
    return subprocess.run(
        [sys.executable, *switches, "-c", READ, str(BATCHES)], env={**clean, "PYTHONPATH": given, **environment},
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.fixture
def warm(tmp_path: Path) -> Path:
    """A cache of this test's own in which all kernels are compiled."""
    place = tmp_path / "warm"
    with kernels.using("numba"):
        folders = [cache.folder(home) for home in (MAIN, "penstock.protocols.tubemq.kernels")]
    for each in folders:
        assert each is not None
        shutil.copytree(each.parent, place / "penstock" / "numba", dirs_exist_ok=True)
    return place


def of_its_own(path: Path, source: str) -> Path:
    """A package of the name that stands before the installed one."""
    (path / "numba").mkdir()
    (path / "numba" / "__init__.py").write_text(source)
    return path


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("raise ImportError('numba needs NumPy 1.0 or less')", "ImportError: numba needs NumPy 1.0 or less"),
        ("raise OSError('libLLVM.so: no such file')", "OSError: libLLVM.so: no such file"),
        ("raise SystemError('initialization failed\\nmore of it')", "SystemError: initialization failed"),
        ("__version__ = '9'", "ImportError: cannot import name"),
        ("import a_module_that_is_not_there", "ModuleNotFoundError"),
    ],
)
def test_a_numba_that_cannot_be_imported_is_done_without(warm: Path, tmp_path: Path, source: str, why: str) -> None:
    ran = read(path=of_its_own(tmp_path, source), XDG_CACHE_HOME=str(warm))
    assert ran.stdout == "pure 54\n", ran.stderr
    (line,) = ran.stderr.splitlines()
    assert line.startswith(f"compiled kernels cannot be used, NumPy does their work: {why}")


def test_a_numba_that_is_told_not_to_compile_is_done_without(warm: Path) -> None:
    ran = read(XDG_CACHE_HOME=str(warm), NUMBA_DISABLE_JIT="1")
    assert ran.stdout == "pure 54\n", ran.stderr
    (line,) = ran.stderr.splitlines()
    assert "NUMBA_DISABLE_JIT is set" in line


def test_a_forced_numba_that_fails_is_an_error_in_words(warm: Path) -> None:
    ran = read(XDG_CACHE_HOME=str(warm), NUMBA_DISABLE_JIT="1", PENSTOCK_KERNEL="numba")
    assert ran.stdout == ""
    last = ran.stderr.splitlines()[-1]
    assert last.startswith("penstock.errors.ConfigError: PENSTOCK_KERNEL=numba, and its kernels cannot be loaded: ")


@pytest.mark.parametrize(("switch", "kernel"), [("-O", "numba"), ("-OO", "pure")])
def test_an_optimizing_python_reads(warm: Path, switch: str, kernel: str) -> None:
    """Without docstrings numba takes functions for others, and compiles them anew: in a folder of their own."""
    ran = read(switch, XDG_CACHE_HOME=str(warm))
    assert (ran.stdout, ran.stderr) == (f"{kernel} 54\n", "")


def wrong_byte(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 0x40
    file.write_bytes(data)


def cut_off(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def emptied(file: Path) -> None:
    file.write_bytes(b"")


def foreign(file: Path) -> None:
    file.write_bytes(b"\x7fELF" + b"of another machine" * 1_000)


@pytest.mark.parametrize("spoil", [wrong_byte, cut_off, emptied, foreign, Path.unlink])
@pytest.mark.parametrize("kind", ["*.nbc", "*.nbi", "compiled"])
def test_kept_code_that_is_damaged_is_not_run(warm: Path, kind: str, spoil: Callable[[Path], None]) -> None:
    for each in warm.rglob(kind):
        spoil(each)
    ran = read(XDG_CACHE_HOME=str(warm))
    assert ran.stdout == "pure 54\n", ran.stderr
    if spoil is not Path.unlink or kind != "compiled":  # without its mark it is one that nobody has completed
        assert ran.stderr.splitlines()[0].endswith("are damaged: they are compiled again"), ran.stderr
