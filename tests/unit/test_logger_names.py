"""Loggers are named for what users know, and the table of them in the docs is whole."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "clients" / "README.md"


def test_every_logger_stands_in_the_table() -> None:
    code = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    assert "getLogger(__name__)" not in code
    used = set(re.findall(r'(?:getLogger|ClientLog|CallbackErrorReporter)\(f?"(penstock\.\w+)"', code))
    used |= {f"penstock.{name}" for name in re.findall(r'client_log\("(\w+)"', code)}
    assert used == set(re.findall(r"^\| `(penstock\.\w+)` \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE))


def test_lines_of_clients_say_whose_they_are() -> None:
    """Through ClientLog; only what all clients of a process share has loggers without one."""
    shared = {
        "client/runtime/imports.py",
        "config/client.py",
        "net/connecting.py",
    }  # the last is told whose by its options
    source = ROOT / "src" / "penstock"
    clients = [*source.glob("client/**/*.py"), *source.glob("protocols/*/client/**/*.py"), *source.glob("config/*.py")]
    bare = {file.relative_to(source).as_posix() for file in clients if "getLogger(" in file.read_text(encoding="utf-8")}
    assert bare <= shared
