"""The file of one member's offsets: whole or not at all, and one member's at a time."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client.connecting import FileOfOffsets
from penstock.errors import ConfigError


def test_what_was_saved_is_there_for_the_next_one_and_what_was_before_stays_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "some" / "folder" / "offsets.json"

    async def first() -> None:
        file = FileOfOffsets(str(path))
        assert await file.load() is None
        await file.save(b"one")
        await file.save(b"two")
        file.close()

    async def second() -> bytes | None:
        file = FileOfOffsets(str(path))
        try:
            return await file.load()
        finally:
            file.close()

    asyncio.run(first())
    assert asyncio.run(second()) == b"two"
    assert path.with_name("offsets.json.bak").read_bytes() == b"one"


def test_a_second_member_is_refused_until_the_first_one_closes(tmp_path: Path) -> None:
    path = str(tmp_path / "offsets.json")

    async def work() -> None:
        one, two = FileOfOffsets(path), FileOfOffsets(path)
        await one.load()
        with pytest.raises(ConfigError, match="another member keeps its offsets") as refused:
            await two.load()
        assert "instance_name" in str(refused.value)
        with pytest.raises(ConfigError, match="another member"):
            await two.save(b"")
        one.close()
        assert await two.load() is None
        two.close()

    asyncio.run(work())


def test_a_process_that_was_killed_leaves_no_lock(tmp_path: Path) -> None:
    path = str(tmp_path / "offsets.json")
    program = f"""
import asyncio, sys
from penstock.client.connecting import FileOfOffsets
asyncio.run(FileOfOffsets({path!r}).save(b"it"))
print("saved", flush=True)
sys.stdin.read()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"saved\n"
        process.kill()
        process.wait()

    async def work() -> None:
        file = FileOfOffsets(path)
        assert await file.load() == b"it"
        file.close()

    asyncio.run(work())


def test_a_folder_that_cannot_be_made_says_which_option_names_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(ConfigError, match="cannot be kept") as refused:
        asyncio.run(FileOfOffsets(str(tmp_path / "file" / "offsets.json")).load())
    assert "offsets_folder" in str(refused.value)


def test_a_file_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "offsets.json"
    with path.open("wb") as file:
        file.truncate(1 << 30)
    with pytest.raises(ConfigError, match="no file of offsets"):
        asyncio.run(FileOfOffsets(str(path)).load())
