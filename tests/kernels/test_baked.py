"""Containers: kernels that came with the image are loaded where nothing can be written, and nobody waits for others."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from penstock import kernels
from penstock.client.runtime.imports import compile_in_background
from penstock.kernels import cache, choose
from penstock.kernels.cache import MAIN
from penstock.kernels.choose import _State

SRC = Path(__file__).parents[2] / "src"
CAP_DAC_OVERRIDE, PR_CAPBSET_DROP = 1, 24

LOAD = """
from penstock import kernels
kernel = kernels.load()
from penstock.kernels.cache import MAIN, folder
stats = [getattr(kernel, name).stats for name in kernel.__all__ if hasattr(getattr(kernel, name), "stats")]
print(folder(MAIN), sum(len(each.cache_hits) for each in stats))
"""
STREAM = """
import sys, threading
import penstock
from penstock import kernels
from penstock.client.runtime import imports as _loading
from penstock.protocols import protocol
CLIENT
names = {kernels.kernel(50 << 20).__name__ for _ in range(4)}
for thread in threading.enumerate():
    if thread.name == "penstock load":
        thread.join()
print(*names, "numba" in sys.modules)
"""
CLIENTS = {
    "consumer": '_loading.load(protocol("kafka"), "consumer")',
    "range reader": 'penstock.RangeReader("kafka://127.0.0.1:1").close()',
}


def as_anybody() -> None:
    """Between fork and exec: root may not write any more where permissions say so."""
    ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0)


def run(program: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Without a home, and with no temporary folder, unless they are given."""
    given = {"PATH": os.defpath, "PYTHONPATH": str(SRC), "HOME": "/dev/null/nowhere", "PYTHONDONTWRITEBYTECODE": "1"}
    nowhere = "import tempfile\ntempfile.tempdir = '/dev/null/nowhere'\n"
    return subprocess.run(
        [sys.executable, "-c", nowhere + program], env={**given, **environment}, preexec_fn=as_anybody,
        capture_output=True, text=True, check=False, timeout=100,
    )  # fmt: skip


@pytest.fixture
def image(tmp_path: Path) -> Iterator[Path]:
    """A folder with this machine's kernels that nobody can write to."""
    with kernels.using("numba"):
        compiled = cache.folder(MAIN)
    assert compiled is not None
    place = tmp_path / "image"
    shutil.copytree(compiled, place / "numba" / compiled.name)
    (place / "numba" / compiled.name / "lock").unlink(missing_ok=True)
    for each in folders_of(place):
        each.chmod(0o555)
    yield place
    for each in folders_of(place):
        each.chmod(0o755)


def folders_of(place: Path) -> list[Path]:
    return [place, *(each for each in place.rglob("*") if each.is_dir())]


def marks(image: Path) -> list[Path]:
    return sorted(image.rglob("compiled"))


def test_kernels_of_an_image_are_loaded_where_nothing_can_be_written(image: Path) -> None:
    ran = run(LOAD, PENSTOCK_KERNEL="numba", PENSTOCK_CACHE_DIR=str(image))
    assert ran.stdout.split() == [str(marks(image)[0].parent), "6"], ran.stderr
    assert ran.stderr == ""


def test_an_image_whose_files_got_another_time_is_as_good(image: Path) -> None:
    for each in image.rglob("*"):
        os.utime(each, (1_600_000_000, 1_600_000_000))
    ran = run(LOAD, PENSTOCK_KERNEL="numba", PENSTOCK_CACHE_DIR=str(image))
    assert ran.stdout.split()[1:] == ["6"], ran.stderr


def other_processor(image: Path) -> None:
    for mark in marks(image):
        mark.parent.rename(mark.parent.with_name("0123456789abcdef"))


def open_to_all(image: Path) -> None:
    (image / "numba").chmod(0o777)


def a_wrong_byte(image: Path) -> None:
    """In machine code: running it may do anything."""
    code = max(image.rglob("*.nbc"), key=lambda each: each.stat().st_size)
    data = bytearray(code.read_bytes())
    data[len(data) // 2] ^= 0x40
    code.write_bytes(data)


def an_old_index(image: Path) -> None:
    next(image.rglob("*.nbi")).write_bytes(b"numba wrote this when it was another one")


def a_lost_mark(image: Path) -> None:
    for mark in marks(image):
        mark.unlink()


@pytest.mark.parametrize("spoil", [other_processor, open_to_all, a_wrong_byte, an_old_index, a_lost_mark])
def test_an_image_that_will_not_do_is_named_and_passed_over(
    image: Path, tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    spoil(image)
    say = "from penstock.kernels.cache import MAIN, folder, is_warm\nprint(folder(MAIN), is_warm(MAIN))"
    ran = run(say, PENSTOCK_CACHE_DIR=str(image), XDG_CACHE_HOME=str(tmp_path / "home"))
    assert Path(ran.stdout.split()[0]).is_relative_to(tmp_path / "home"), ran.stderr
    assert ran.stdout.split()[1] == "False"
    assert f"PENSTOCK_CACHE_DIR={image} can be written to by others" in ran.stderr


@pytest.mark.parametrize("client", CLIENTS)
def test_a_client_in_a_container_that_keeps_nothing_decodes_with_numpy_and_waits_for_nobody(client: str) -> None:
    ran = run(STREAM.replace("CLIENT", CLIENTS[client]))
    assert ran.stdout.split() == ["penstock.kernels._pure", "False"], ran.stderr
    assert "compiled kernels can be kept nowhere" in ran.stderr


def test_a_folder_is_filled_for_images(image: Path, tmp_path: Path) -> None:
    warm = "import sys\nfrom penstock.kernels import warm\nprint(warm.main(sys.argv[1:]))"
    ran = run(warm.replace("sys.argv[1:]", f"['--to', {str(image)!r}]"))  # it is full already
    assert ran.stdout.strip() == str(marks(image)[0].parent), ran.stderr
    (tmp_path / "file").touch()
    ran = run(warm.replace("sys.argv[1:]", f"['--to', {str(tmp_path / 'file')!r}]"))
    assert ran.stderr.splitlines()[-1].startswith("penstock.errors.LocalError: compiled kernels cannot be kept in ")


@pytest.fixture
def cold(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A machine on which nobody has compiled; the parts that are put in have been."""
    compiled: set[str] = set()
    monkeypatch.setattr(choose, "is_warm", compiled.__contains__)
    monkeypatch.setattr(choose, "folder", lambda home: tmp_path)
    monkeypatch.setattr(choose, "being_compiled", lambda home: False)
    monkeypatch.delenv("PENSTOCK_KERNEL", raising=False)
    for name, value in {
        "chosen": "numba",
        "forced": False,
        "loaded": {},
        "under_way": set(),
        "walked": 0,
        "pays_at": {},
        "asked": False,
    }.items():
        monkeypatch.setattr(_State, name, value)
    monkeypatch.setattr(_State, "beside", None)
    return compiled


def test_another_process_is_asked_once_to_compile_and_numba_loaded_when_it_has(
    cold: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    monkeypatch.setattr(_State, "compiling", lambda: asked.append(_State.walked >> 20))
    names = [kernels.kernel(10 << 20).__name__.rpartition("_")[2] for _ in range(9)]
    assert (names, asked) == (["pure"] * 9, [40])
    cold.add(MAIN)
    assert kernels.kernel(20 << 20).__name__ == "penstock.kernels._numba"


def test_what_another_process_compiles_already_is_not_compiled_twice(
    cold: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []
    monkeypatch.setattr(_State, "compiling", lambda: asked.append("asked"))
    monkeypatch.setattr(choose, "being_compiled", lambda home: True)
    assert kernels.kernel(1 << 30).__name__ == "penstock.kernels._pure"
    assert asked == []
    assert cold == set()


def test_who_holds_the_lock_is_compiling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "folder", lambda home: tmp_path)
    assert not cache.being_compiled("home")
    with cache.in_turn("home"):
        assert cache.being_compiled("home")
    assert not cache.being_compiled("home")


def wait_for(thread: threading.Thread) -> None:
    thread.join(60)
    assert not thread.is_alive()


def test_the_other_process_has_our_modules(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    with kernels.using("numba"):
        monkeypatch.delenv("PYTHONPATH", raising=False)
        wait_for(compile_in_background())  # in no time: it is done
    assert caplog.messages == []


def test_a_process_that_cannot_compile_is_told_of(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(sys, "path", [])
    wait_for(compile_in_background())
    (message,) = caplog.messages
    assert message.endswith("ModuleNotFoundError: No module named 'penstock'")
