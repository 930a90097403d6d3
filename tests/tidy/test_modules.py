"""Modules say what they are for: by their name, by their docstring, and packages by what they re-export."""

import ast
import re

from tests.tidy.tree import SOURCE, name, parsed, python_files, text

VAGUE = re.compile(r"_?(utils?|helpers?|commons?|managers?|base|misc)(\.py)?$")

# An __init__ that is allowed to hold code, and why.
HOLDS_CODE = {
    "src/penstock/protocols/__init__.py": "the registry: the one place that names a protocol",
}


def test_no_module_has_a_name_that_says_nothing() -> None:
    vague = {
        name(file) for file in python_files() for part in file.relative_to(SOURCE.parent).parts if VAGUE.match(part)
    }
    assert vague == set()


def test_every_module_says_what_it_is_for() -> None:
    silent = {name(file) for file in python_files() if text(file).strip() and not ast.get_docstring(parsed(file))}
    assert silent == set()


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {file.parent for file in python_files() if file.is_relative_to(SOURCE / "penstock")}
    assert {name(folder) for folder in folders if not (folder / "__init__.py").exists()} == set()


def test_every_package_says_what_it_is_for() -> None:
    silent = {
        name(file)
        for file in python_files()
        if file.name == "__init__.py" and file.is_relative_to(SOURCE) and not ast.get_docstring(parsed(file))
    }
    assert silent == set()


def is_re_export(statement: ast.stmt) -> bool:
    """Docstring, import, a plain assignment (``__all__``, the table of lazy names), or the two hooks of PEP 562."""
    match statement:
        case ast.Expr(value=ast.Constant()) | ast.Import() | ast.ImportFrom() | ast.Assign() | ast.AnnAssign():
            return True
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            return all(isinstance(inner, ast.Import | ast.ImportFrom) for inner in statement.body)
        case ast.FunctionDef(name="__getattr__" | "__dir__"):
            return True
    return False


def test_a_package_only_re_exports() -> None:
    holding = {
        f"{name(file)}:{statement.lineno}"
        for file in python_files()
        if file.name == "__init__.py" and file.is_relative_to(SOURCE) and name(file) not in HOLDS_CODE
        for statement in parsed(file).body
        if not is_re_export(statement)
    }
    assert holding == set()
