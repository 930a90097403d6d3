"""A conversion that is killed at any moment can be finished, or undone, by running the command again."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.spark._checkpoint import Form, LocalFiles, carry_out, plan
from tests.unit.spark.recorded_checkpoint import ENDS, tree, write

BATCHES = {number: [ENDS[number], ENDS[number + 1]] for number in range(2)}


class Killed(BaseException):
    pass


class Dying(LocalFiles):
    """Real files, until the write or deletion number ``last``, in which the process dies.

    ``leaves`` is what the file system leaves of a file that was being replaced.
    """

    def __init__(self, root: Path, last: int, leaves: Callable[[Path, bytes], object]) -> None:
        super().__init__(root)
        self.root, self.left, self.leaves = root, last, leaves

    def replace(self, path: str, content: bytes) -> None:
        self._step(path, content)
        super().replace(path, content)

    def delete(self, path: str) -> None:
        self._step(path, b"")
        super().delete(path)

    def _step(self, path: str, content: bytes) -> None:
        if self.left == 0:
            (self.root / path).parent.mkdir(parents=True, exist_ok=True)
            self.leaves(self.root / path, content)
            raise Killed
        self.left -= 1


LEAVES: dict[str, Callable[[Path, bytes], object]] = {
    "the file as it was": lambda path, content: None,
    "the new one beside it": lambda path, content: path.with_name(f".{path.name}.converted").write_bytes(content[:9]),
    "nothing": lambda path, content: path.unlink(missing_ok=True),
    "half of the new one": lambda path, content: path.write_bytes(content[: len(content) // 2]),
    "an empty file": lambda path, content: path.write_bytes(b""),
}


@pytest.mark.parametrize("leaves", LEAVES)
@pytest.mark.parametrize("wanted", [Form.OURS, Form.CONNECTOR])
def test_killed_at_any_moment(tmp_path: Path, leaves: str, wanted: Form) -> None:
    forms = {Form.CONNECTOR: write(tmp_path / "connector", BATCHES, committed=0)}
    forms[Form.OURS] = Path(shutil.copytree(forms[Form.CONNECTOR], tmp_path / "penstock"))
    convert(forms[Form.OURS], Form.OURS)
    shutil.rmtree(forms[Form.OURS] / "originals")
    begin = forms[Form.OURS if wanted is Form.CONNECTOR else Form.CONNECTOR]
    moments = 0
    while True:
        killed = Path(shutil.copytree(begin, tmp_path / f"killed-{moments}"))
        files = Dying(killed, moments, LEAVES[leaves])
        try:
            carry_out(files, plan(files, wanted))
        except Killed:
            for then in (Form.OURS, Form.CONNECTOR):
                again = Path(shutil.copytree(killed, tmp_path / f"killed-{moments}-{then.name}"))
                convert(again, then)
                assert {k: v for k, v in tree(again).items() if ".converted" not in k} == tree(forms[then])
                assert not (again / "originals" / "unfinished").exists()
            moments += 1
        else:
            break
    assert moments == 2 * len(BATCHES) + 2  # copies, the note of them, batches, and the end of the note


def convert(root: Path, wanted: Form) -> None:
    files = LocalFiles(root)
    carry_out(files, plan(files, wanted))


def test_batches_that_spark_has_deleted_since_do_not_come_back(tmp_path: Path) -> None:
    write(tmp_path)
    files = Dying(tmp_path, 2 * len(ENDS) + 1, LEAVES["the file as it was"])  # all is done, but the note not deleted
    with pytest.raises(Killed):
        carry_out(files, plan(files, Form.OURS))
    for batch in ("0", "1"):
        (tmp_path / "offsets" / batch).unlink()
        (tmp_path / "commits" / batch).unlink()
    convert(tmp_path, Form.CONNECTOR)
    assert sorted(each.name for each in (tmp_path / "offsets").iterdir()) == ["2", "3"]
