"""Processes end while others look at them: walks over them stand in one place, which minds that."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, name, parsed, python_files

WALKS = {"children", "parents", "process_iter"}
MINDFUL = "tests/processes.py"


def walks(file: Path) -> Iterator[int]:
    """Lines that ask psutil for processes nobody has a hold of."""
    tree = parsed(file)
    imported = {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}
    for node in ast.walk(tree) if "psutil" in imported else ():
        match node:
            case ast.Call(func=ast.Attribute(attr=called)) if called in WALKS:
                yield node.lineno


def test_processes_are_found_by_who_minds_that_they_end() -> None:
    ours = [file for file in python_files() if name(file).startswith(("src/", "tests/", "tools/"))]
    assert list(walks(ROOT / MINDFUL))
    assert {f"{name(file)}:{line}" for file in ours if name(file) != MINDFUL for line in walks(file)} == set()
