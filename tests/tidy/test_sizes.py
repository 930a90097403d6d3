"""A file nobody reads whole and a function that does not fit a screen are found here, not in review."""

import ast
from collections.abc import Iterator
from pathlib import Path

from tests.tidy.tree import name, parsed, python_files, text

FILE_LINES = 400
FUNCTION_LINES = 70


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(parsed(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_no_file_is_longer_than_400_lines() -> None:
    long = {name(file): lines for file in python_files() if (lines := text(file).count("\n")) > FILE_LINES}
    assert long == {}


def test_no_function_is_longer_than_70_lines() -> None:
    long = {
        f"{name(file)}:{function.lineno} {function.name}": lines
        for file in python_files()
        for function in functions(file)
        if (lines := (function.end_lineno or 0) - function.lineno + 1) > FUNCTION_LINES
    }
    assert long == {}
