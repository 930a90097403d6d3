"""Every example of the pages under docs/ but Spark's, run as it is printed, from top to bottom, on a fresh node.

What stands here beside them: the topics that a page takes for granted.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import penstock
from penstock.testing import Broker

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)[^\n]*\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PAGES = sorted(file for file in DOCS.rglob("*.md") if "spark" not in file.relative_to(DOCS).as_posix())
TOPICS = {"flights": 3, "copies": 1, "copy-of-flights": 2, "audit": 1}
RECORDS = 1_000


def blocks(page: Path, *languages: str) -> list[tuple[str, str, int]]:
    """(language, text, line of the page where it begins)."""
    text = page.read_text(encoding="utf-8")
    found = [(each[1], each[2], text.count("\n", 0, each.start(2)) + 1) for each in FENCE.finditer(text)]
    return [each for each in found if each[0] in languages]


def pages_with(*languages: str) -> list[str]:
    return [page.relative_to(DOCS).as_posix() for page in PAGES if blocks(page, *languages)]


@pytest.fixture
def node() -> Iterator[Broker]:
    with a_node() as running:
        yield running


@contextmanager
def a_node() -> Iterator[Broker]:
    """With what pages take for granted."""
    with Broker(listen=["kafka://127.0.0.1:0", "tubemq://127.0.0.1:0"]) as running:
        for topic, partitions in TOPICS.items():
            running.create_topic(topic, partitions)
        with penstock.Producer(running.address) as producer:
            for number in range(RECORDS):
                producer.send("flights", b"%d" % number, key=b"k%d" % (number % 50))
        yield running


def addressed(text: str, node: Broker) -> str:
    masters = node.url("tubemq").removeprefix("tubemq://")
    return text.replace("broker:9092", node.bootstrap).replace("master:8715", masters)


@pytest.mark.parametrize("page", [each for each in pages_with("python") if not each.startswith("testing/")])
def test_python(page: str, node: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_python(DOCS / page, node)


def run_python(page: Path, node: Broker) -> dict[str, object]:
    space: dict[str, object] = {"__name__": "page"}
    for _, code, line in blocks(page, "python"):
        # Empty lines before it, so that a traceback names the line of the page.
        exec(compile("\n" * (line - 1) + addressed(code, node), str(page), "exec"), space)
    return space


def test_the_page_about_pytest(broker: Broker, node: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tests = [each for name, each in run_python(DOCS / "testing/README.md", node).items() if name.startswith("test_")]
    assert tests
    for test in tests:
        assert callable(test)
        test(broker)


@pytest.mark.parametrize("page", pages_with("sh"))
def test_commands(page: str, node: Broker, tmp_path: Path) -> None:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    for _, commands, line in blocks(DOCS / page, "sh"):
        ran = subprocess.run(
            ["/bin/sh", "-e", "-c", addressed(commands, node)],
            cwd=tmp_path, env={**os.environ, "PATH": path}, capture_output=True, text=True, timeout=100, check=False,
        )  # fmt: skip
        assert ran.returncode == 0, f"{page}:{line}\n{ran.stdout}{ran.stderr}"


@pytest.mark.parametrize("page", pages_with("toml", "ini"))
def test_files_of_options(page: str, node: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first line says which file it is, and for what: ``# NAME, for EXPRESSION``; else it is somebody else's."""
    monkeypatch.chdir(tmp_path)
    for _, text, _ in blocks(DOCS / page, "toml", "ini"):
        said = re.match(r"[#;] (\S+), for (.*)\n", text)
        if said is None:
            assert text.startswith("# /etc/systemd/"), f"{page}: a file of options does not say what it is for"
            continue
        (tmp_path / said[1]).write_text(addressed(text, node), encoding="utf-8")
        eval(f"penstock.{said[2]}", {"penstock": penstock}).close()
