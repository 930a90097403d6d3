"""A test that sleeps is slow on a fast machine and wrong on a slow one: wait for the event, or pass a clock in."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import ROOT, name, parsed, python_files

# File -> why sleeping is right there.
ALLOWED: dict[str, str] = {
    "tests/eventually.py": "real servers tell nobody when they are done; they can only be asked again",
    "tests/fuzz/node_in_memory.py": "its clock is virtual: nobody waits",
    "tests/fuzz/node_target.py": "the same clock",
    "tests/unit/tubemq_enode/test_slow_brokers.py": "brokers that take 20 s, on a virtual clock as well",
}


def sleeps(file: Path) -> Iterator[int]:
    """Lines that call time.sleep or asyncio.sleep for longer than "let the others run"."""
    tree = parsed(file)
    bare = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module in {"time", "asyncio"}
        for alias in node.names
        if alias.name == "sleep"
    }
    for node in ast.walk(tree):
        match node:
            case ast.Call(args=[ast.Constant(value=0)]):
                continue
            case ast.Call(func=ast.Attribute(value=ast.Name(id="time" | "asyncio"), attr="sleep")):
                yield node.lineno
            case ast.Call(func=ast.Name(id=called)) if called in bare:
                yield node.lineno


def test_no_test_sleeps() -> None:
    found = {
        f"{name(file)}:{line}"
        for file in python_files()
        if file.is_relative_to(ROOT / "tests") and name(file) not in ALLOWED
        for line in sleeps(file)
    }
    assert found == set()
