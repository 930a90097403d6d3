"""``python -m tools.weigh``: figures about the structure of the source: files, lines, imports, circles, small modules.

The figures show whether a newcomer can find their way: the number of files, the share of imports in the code, the
number of modules with only one importer. ``./dev check`` prints notes on small modules, which do not fail it.
"""

from __future__ import annotations

import ast
import io
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tools.environment import ROOT

__all__ = ["Module", "modules", "notes"]

SOURCE: Final = ROOT / "src"
SMALL: Final = 150
"""A module with fewer lines and only one importer should be part of that importer."""
_NO_CODE: Final = frozenset({tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER})


@dataclass
class Module:
    """One module: its lines, and the modules of penstock it imports at its top, in functions, and for types only."""

    name: str
    path: Path
    text: str
    at_top: set[str] = field(default_factory=set)
    late: set[str] = field(default_factory=set)
    for_types: set[str] = field(default_factory=set)

    @property
    def lines(self) -> int:
        return self.text.count("\n")

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def code_lines(self) -> int:
        """Lines with code, without docstrings, comments and blank lines."""
        doc: set[int] = set()
        for node in ast.walk(ast.parse(self.text)):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                doc.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
        code: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in _NO_CODE and token.type != tokenize.COMMENT:
                code.update(range(token.start[0], token.end[0] + 1))
        return len(code - doc)

    def import_lines(self) -> int:
        found = (node for node in ast.walk(ast.parse(self.text)) if isinstance(node, ast.Import | ast.ImportFrom))
        return sum((node.end_lineno or node.lineno) - node.lineno + 1 for node in found)


def modules() -> Mapping[str, Module]:
    """All modules of the package by name."""
    found: dict[str, Module] = {}
    for path in sorted((SOURCE / "penstock").rglob("*.py")):
        name = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        found[name] = Module(name, path, path.read_text(encoding="utf-8"))
    for module in found.values():
        tree = ast.parse(module.text)
        top = {id(node): module.at_top for node in tree.body}
        for node in tree.body:
            if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
                top.update((id(each), module.for_types) for each in node.body)
        for each in ast.walk(tree):
            if isinstance(each, ast.ImportFrom) and each.module is not None:
                for alias in each.names:
                    target = f"{each.module}.{alias.name}" if f"{each.module}.{alias.name}" in found else each.module
                    if target in found and target != module.name:
                        top.get(id(each), module.late).add(target)
    return found


def _importers(all_of_them: Mapping[str, Module]) -> Mapping[str, set[str]]:
    by: dict[str, set[str]] = defaultdict(set)
    for module in all_of_them.values():
        for target in module.at_top | module.late | module.for_types:
            by[target].add(module.name)
    return by


def _circles(all_of_them: Mapping[str, Module], *, types: bool) -> Iterator[frozenset[str]]:
    """Modules that import each other at their top; with ``types`` also those that do so only for types."""
    edges = {name: each.at_top | (each.for_types if types else set()) for name, each in all_of_them.items()}

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        left = list(edges[start])
        while left:
            if (each := left.pop()) not in seen:
                seen.add(each)
                left.extend(edges[each])
        return seen

    reach = {name: reached(name) for name in edges}
    yield from {
        frozenset(other for other in reach[name] if name in reach[other]) for name in edges if name in reach[name]
    }


def notes() -> Iterator[str]:
    """Small modules with one importer, and that importer."""
    found = modules()
    for name, importers in sorted(_importers(found).items()):
        module = found[name]
        if len(importers) == 1 and module.lines < SMALL and not module.is_package:
            (only,) = importers
            late = ", late" if name in found[only].late else ""
            yield f"{module.path.relative_to(ROOT)} has {module.lines} lines, and only {only} imports it{late}"


def main() -> None:
    """Print the figures."""
    found = modules()
    code = sum(each.code_lines() for each in found.values())
    imports = sum(each.import_lines() for each in found.values())
    plain = {name: each for name, each in found.items() if not each.is_package}
    by = _importers(found)
    alone = sum(len(by[name]) == 1 for name in plain)
    print(f"files                         {len(found)}, {len(found) - len(plain)} of them packages")
    print(f"lines                         {sum(each.lines for each in found.values()):,}, of code {code:,}")
    print(f"files / 1,000 lines of code   {1_000 * len(found) / code:.1f}")
    print(f"largest file                  {max(each.lines for each in found.values())}")
    print(f"below 80 lines                {sum(each.lines < 80 for each in plain.values())}")
    print(f"imports ÷ code                {100 * imports / code:.1f} %")
    print(f"modules with one importer     {100 * alone / len(plain):.0f} %")
    print(f"circles of imports            {sum(1 for _ in _circles(found, types=False))}")
    circles = sorted(map(sorted, _circles(found, types=True)))
    print(f"… with those for types        {len(circles)}")
    for circle in circles:
        print(f"    {', '.join(circle)}")


if __name__ == "__main__":
    main()
