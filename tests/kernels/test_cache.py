"""Compiled kernels are kept where they can be, never where somebody else could put his own in their place."""

from __future__ import annotations

import os
import tempfile
import threading
from pathlib import Path

import pytest

from penstock.kernels import cache
from penstock.kernels.cache import MAIN, in_turn, is_warm, kept, places

USER = f"penstock-{os.geteuid()}"


@pytest.fixture(autouse=True)
def no_temporary_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine's own is left alone; a test names one by TMPDIR."""
    monkeypatch.setattr(tempfile, "tempdir", str(blocked(tmp_path)))


def blocked(tmp_path: Path) -> Path:
    """A place where no folder can be made, for root neither."""
    file = tmp_path / "file"
    file.write_text("no folder")
    return file


def test_the_users_cache_comes_first(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "TMPDIR": str(tmp_path)}
    assert kept("k", given) == tmp_path / "cache" / "penstock" / "numba" / "k"
    assert kept("k", {"HOME": str(tmp_path)}) == tmp_path / ".cache" / "penstock" / "numba" / "k"
    assert not caplog.messages


@pytest.mark.parametrize("name", ["TMPDIR", "LOCAL_DIRS", "SPARK_EXECUTOR_DIRS", "SPARK_LOCAL_DIRS"])
def test_without_a_home_it_is_a_temporary_folder_or_sparks_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, name: str
) -> None:
    (tmp_path / "a").mkdir()
    value = str(tmp_path / "a") if name == "TMPDIR" else f"{blocked(tmp_path)},{tmp_path / 'a'}"
    given = {"HOME": str(blocked(tmp_path)), name: value}
    assert kept("k", given) == tmp_path / "a" / USER / "numba" / "k"
    assert (tmp_path / "a" / USER).stat().st_mode & 0o777 == 0o700
    (message,) = caplog.messages
    assert str(tmp_path / "a" / USER) in message
    caplog.clear()
    assert kept("k", given) == tmp_path / "a" / USER / "numba" / "k"
    assert not caplog.messages  # once a machine


def test_code_that_was_compiled_with_another_table_is_not_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "a_home_of_kernels"
    (home / "_numba").mkdir(parents=True)
    for file in ("__init__.py", "interface.py", "_numba/__init__.py"):
        (home / file).write_text("NAMES = ('a',)\n")
    monkeypatch.syspath_prepend(tmp_path)
    before = cache._digest(home.name)
    assert cache._digest(home.name) == before
    (home / "interface.py").write_text("NAMES = ('a', 'b')\n")
    assert cache._digest(home.name) != before


def test_nowhere(tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    assert kept("k", {"HOME": str(blocked(tmp_path))}) is None
    monkeypatch.setattr(cache, "kept", lambda *_: None)
    cache.folder.cache_clear()
    try:
        assert cache.folder(MAIN) is None
        assert cache.folder(MAIN) is None
        (message,) = caplog.messages
        assert "XDG_CACHE_HOME or TMPDIR" in message
    finally:
        cache.folder.cache_clear()


def test_a_user_id_without_a_home_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    assert places({})[0] == Path("/.cache/penstock")


def link(place: Path) -> None:
    (place.parent / "theirs").mkdir()
    place.symlink_to(place.parent / "theirs")


def open_to_all(place: Path) -> None:
    place.mkdir()
    place.chmod(0o777)


def open_to_a_group(place: Path) -> None:
    place.mkdir()
    place.chmod(0o770)


def of_another(place: Path) -> None:
    place.mkdir()
    if os.geteuid():
        pytest.skip("only root can give a folder away")
    os.chown(place, 12345, 12345)


def below_one_of_another(place: Path) -> None:
    of_another(place)
    place.rmdir()
    os.chown(place.parent, 12345, 12345)


@pytest.mark.parametrize("prepare", [link, open_to_all, open_to_a_group, of_another, below_one_of_another])
def test_what_somebody_else_could_have_written_is_not_run(tmp_path: Path, prepare: object) -> None:
    shared = tmp_path / "tmp"
    shared.mkdir()
    shared.chmod(0o1777)
    assert callable(prepare)
    prepare(shared / USER)
    assert kept("k", {"HOME": str(blocked(tmp_path)), "TMPDIR": str(shared)}) is None


def test_a_folder_for_everybody_in_which_anybody_can_rename_is_none(tmp_path: Path) -> None:
    (tmp_path / "tmp").mkdir()
    (tmp_path / "tmp").chmod(0o777)
    assert kept("k", {"HOME": str(blocked(tmp_path)), "TMPDIR": str(tmp_path / "tmp")}) is None


def test_who_comes_second_waits_until_the_first_has_compiled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "folder", lambda home: tmp_path)
    entered, go_on, done = threading.Event(), threading.Event(), []

    def first() -> None:
        with in_turn("home"):
            entered.set()
            assert go_on.wait(30)
            done.append("first")

    def second() -> None:
        with in_turn("home"):
            done.append("second")

    threads = [threading.Thread(target=each) for each in (first, second)]
    threads[0].start()
    assert entered.wait(30)
    assert not is_warm("home")
    threads[1].start()
    go_on.set()
    for each in threads:
        each.join(30)
    assert done == ["first", "second"]
    assert is_warm("home")
    with in_turn("home"), in_turn("home"):  # nobody waits for what is there
        done.append("third")


def test_what_could_not_be_compiled_is_not_taken_for_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache, "folder", lambda home: tmp_path)
    with pytest.raises(ImportError), in_turn("home"):
        raise ImportError
    assert not is_warm("home")
