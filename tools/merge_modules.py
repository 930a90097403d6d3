"""``python -m tools.merge_modules TABLE.toml [--write]``: merge, move and rename modules by a table.

The table::

    facades = ["penstock.client.wire"]          # packages that only re-export: they are removed, imports name the homes

    [modules]                                   # new module = the old modules that become it, in their order
    "penstock.client.runtime.thread" = ["penstock.client._loop_thread", "penstock.client._brisk"]

    [names]                                     # top-level names that change; all uses follow
    "penstock.client._brisk._log" = "_switch_log"

    [docs]                                      # docstrings of new modules; without one the first old module's stays
    "penstock.client.runtime" = "What runs the asynchronous clients under the synchronous ones."

Without ``--write`` it only prints conflicts: names that two of the old modules both have, a name of one module that
hides a builtin in another, a rename that collides with a local variable. With it, files are written, imports are
rewritten in all Python files, and dotted names and paths in all other text. Sort and format afterwards with
``./dev check --fix format lint``.
"""

from __future__ import annotations

import ast
import builtins
import re
import shutil
import subprocess
import sys
import textwrap
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from tools.environment import ROOT

SOURCE = ROOT / "src"
TEXT = (".py", ".md", ".toml", ".txt", ".cfg", ".yaml", ".yml", ".rst", ".html", ".json")
WIDTH = 120
FUTURE = "from __future__ import annotations"

Functions = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
Comprehensions = ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp


@dataclass(frozen=True)
class Edit:
    """Replaces the characters from ``start`` to ``end`` by ``text``."""

    start: int
    end: int
    text: str


@dataclass
class Table:
    """The content of the table's file."""

    modules: dict[str, list[str]]
    names: dict[tuple[str, str], str]
    docs: dict[str, str]
    facades: dict[str, dict[str, tuple[str, str]]]
    """Package that is removed -> name that it re-exports -> (module of the name, name there)."""

    @classmethod
    def read(cls, path: Path) -> Table:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
        names = {(old.rpartition(".")[0], old.rpartition(".")[2]): new for old, new in table.get("names", {}).items()}
        found = table.get("facades", ())
        listed = found["modules"] if isinstance(found, dict) else found
        facades = {package: _re_exported(package) for package in listed}
        return cls(table["modules"], names, table.get("docs", {}), facades)

    @cached_property
    def new(self) -> dict[str, str]:
        """Old module -> new module."""
        found: dict[str, str] = {}
        for new, olds in self.modules.items():
            for old in olds:
                if old in found:
                    raise SystemExit(f"{old} is in the table twice")
                found[old] = new
        return found

    def name(self, module: str, name: str) -> str:
        return self.names.get((module, name), name)

    def home(self, module: str, name: str) -> tuple[str, str]:
        """The module and name of the definition of a name that is imported from ``module``."""
        return self.facades.get(module, {}).get(name, (module, name))


def _re_exported(package: str) -> dict[str, tuple[str, str]]:
    tree = ast.parse(path_of(package).read_text(encoding="utf-8"))
    return {
        binding(alias): (node.module, alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith(f"{package}.")
        for alias in node.names
    }


def path_of(module: str) -> Path:
    """The file of a module that exists."""
    base = SOURCE.joinpath(*module.split("."))
    return base / "__init__.py" if base.is_dir() else base.with_suffix(".py")


class Source:
    """A Python file's text and tree, with edits by position."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = ast.parse(text)
        self._lines = text.splitlines(keepends=True)
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line))
        self.edits: list[Edit] = []

    def at(self, line: int, column: int) -> int:
        """The index in ``text`` of a position in the tree, whose columns count bytes."""
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())

    def span(self, node: ast.stmt | ast.expr | ast.alias) -> tuple[int, int]:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def replace(self, node: ast.stmt | ast.expr | ast.alias, text: str) -> None:
        self.edits.append(Edit(*self.span(node), text))

    def remove_lines(self, node: ast.stmt) -> None:
        """Remove all lines of a statement; ``pass`` replaces the only statement of a block."""
        assert node.end_lineno is not None
        self.edits.append(Edit(self._starts[node.lineno - 1], self._starts[node.end_lineno], ""))

    def edited(self) -> str:
        text = self.text
        last = len(text) + 1
        for edit in sorted(set(self.edits), key=lambda each: (each.start, each.end), reverse=True):
            if edit.end > last:
                continue  # inside a node that is replaced as a whole
            text = text[: edit.start] + edit.text + text[edit.end :]
            last = edit.start
        return text


def bound_here(node: ast.AST) -> set[str]:
    """Names that a function, a comprehension or a module binds itself, without nested scopes."""
    names: set[str] = set()
    elsewhere: set[str] = set()

    def visit(each: ast.AST) -> None:
        match each:
            case ast.Name(id=name, ctx=ast.Store() | ast.Del()):
                names.add(name)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                names.add(each.name)
                for part in (*each.decorator_list, *(each.bases if isinstance(each, ast.ClassDef) else ())):
                    visit(part)
                return
            case ast.Lambda() | ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
                return
            case ast.Import() | ast.ImportFrom():
                names.update(binding(alias) for alias in each.names)
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                names.add(name)
            case ast.Global(names=found) | ast.Nonlocal(names=found):
                elsewhere.update(found)
            case _:
                pass
        for child in ast.iter_child_nodes(each):
            visit(child)

    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda():
            arguments = node.args
            every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
            names.update(each.arg for each in every if each is not None)
            for child in node.body if isinstance(node.body, list) else [node.body]:
                visit(child)
        case ast.ListComp() | ast.SetComp() | ast.DictComp() | ast.GeneratorExp():
            for generator in node.generators:
                visit(generator.target)
        case ast.Module() | ast.ClassDef():
            for child in node.body:
                visit(child)
        case _:
            raise TypeError(node)
    return names - elsewhere


def binding(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def globals_used(tree: ast.Module) -> Iterator[ast.Name]:
    """Every use of a global name of the module (or of a builtin), at any depth."""

    def visit(node: ast.AST, hidden: frozenset[str]) -> Iterator[ast.Name]:
        if isinstance(node, ast.Name):
            if node.id not in hidden:
                yield node
            return
        inner = hidden
        if isinstance(node, Functions):
            inner = hidden | bound_here(node)
            outside: list[ast.AST] = [
                *node.args.defaults,
                *(each for each in node.args.kw_defaults if each is not None),
            ]
            if not isinstance(node, ast.Lambda):
                outside += node.decorator_list
                outside += [each for each in (node.returns, *annotated(node.args)) if each is not None]
            for part in outside:
                yield from visit(part, hidden)
            for part in node.body if isinstance(node.body, list) else [node.body]:
                yield from visit(part, inner)
            return
        if isinstance(node, Comprehensions):
            inner = hidden | bound_here(node)
        elif isinstance(node, ast.ClassDef):
            # A class's own names are visible in its statements, not in its methods.
            own = bound_here(node)
            for part in (*node.decorator_list, *node.bases, *(each.value for each in node.keywords)):
                yield from visit(part, hidden)
            for part in node.body:
                yield from visit(part, hidden if isinstance(part, Functions | ast.ClassDef) else hidden | own)
            return
        for child in ast.iter_child_nodes(node):
            yield from visit(child, inner)

    yield from visit(tree, frozenset())


def annotated(arguments: ast.arguments) -> list[ast.expr | None]:
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
    return [each.annotation for each in every if each is not None]


@dataclass
class Rewritten:
    """The result of rewriting a file's imports: names whose meaning has changed in the file."""

    names: dict[str, str] = field(default_factory=dict)
    """Binding -> new binding."""
    dissolved: dict[str, str] = field(default_factory=dict)
    """Binding of a module that is now part of this file -> the old module."""
    moved: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Binding of a module with a new name -> the old module, and the new binding."""
    spread: dict[str, dict[str, str]] = field(default_factory=dict)
    """Binding of a package that is removed -> attribute of it -> the text that replaces both."""


def rewrite(source: Source, table: Table, own: str | None, me: str | None = None) -> Rewritten:
    """Edit all imports of ``source``; ``me`` is its old module, ``own`` the new module that it becomes part of."""
    done = Rewritten()
    for (module, name), new in table.names.items():
        if module == me:
            done.names[name] = new
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.ImportFrom) or node.level or node.module is None:
            continue
        lines, touched = [], False
        for alias in node.names:
            if f"{node.module}.{alias.name}" in table.facades:
                lines += _homes_of(f"{node.module}.{alias.name}", alias, source, table, own, done)
                touched = True
                continue
            home, name = table.home(node.module, alias.name)
            if home != node.module:
                alias = ast.alias(name, alias.asname or (binding(alias) if name != alias.name else None))
                touched = True
            line, changed = _import(home, alias, table, own, done)
            touched |= changed
            lines.append(line)
        if not touched:
            continue
        kept = [line for line in lines if line]
        indent = " " * node.col_offset
        if kept:
            source.replace(node, f"\n{indent}".join(kept))
        elif node.col_offset == 0:
            source.remove_lines(node)
        else:
            source.replace(node, "pass")
    return done


def _import(module: str, alias: ast.alias, table: Table, own: str | None, done: Rewritten) -> tuple[str, bool]:
    """The statement for one imported name ("" if it is now in this module), and whether it changed."""
    bound = binding(alias)
    suffix = f" as {alias.asname}" if alias.asname else ""
    if (old := f"{module}.{alias.name}") in table.new:
        parent, _, leaf = table.new[old].rpartition(".")
        if table.new[old] == own:
            done.dissolved[bound] = old
            return "", True
        if not alias.asname and leaf != alias.name:
            done.names[bound] = leaf
        done.moved[bound] = old, alias.asname or leaf
        return f"from {parent} import {leaf}{suffix}", True
    if module not in table.new:
        return f"from {module} import {alias.name}{suffix}", False
    new = table.name(module, alias.name)
    if table.new[module] == own:
        if bound != new:
            done.names[bound] = new
        return "", True
    if not alias.asname and new != alias.name:
        done.names[bound] = new
    return f"from {table.new[module]} import {new}{suffix}", True


def _homes_of(
    facade: str, alias: ast.alias, source: Source, table: Table, own: str | None, done: Rewritten
) -> list[str]:
    """Statements for the modules with the names that the file uses of a package; the most used module comes first.

    Uses of the package as a whole, or of names that every module has (``__all__``), become the first module.
    """
    bound = binding(alias)
    uses = {id(node) for node in globals_used(source.tree)}
    listed = [table.new.get(module, module) for module, _ in table.facades[facade].values()]
    most = max(listed, key=listed.count)
    used: dict[str, set[str]] = {}
    spread = done.spread.setdefault(bound, {})
    within = set()
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == bound:
            within.add(id(node.value))
            if id(node.value) in uses:
                module, name = table.home(facade, node.attr)
                new = most if module == facade else table.new.get(module, module)
                used.setdefault(new, set()).add(node.attr)
                spread[node.attr] = table.name(module, name)
        elif isinstance(node, ast.Name) and node.id == bound and id(node) in uses - within:
            used.setdefault(most, set()).add("")
            spread[""] = ""
    lines: list[str] = []
    for new in sorted(used, key=lambda each: (-len(used[each]), each)):
        parent, _, leaf = new.rpartition(".")
        if new == own:
            continue
        name = alias.asname if alias.asname and not lines else leaf
        lines.append(f"from {parent} import {leaf}" + (f" as {name}" if name != leaf else ""))
        spread.update({each: f"{name}.{spread[each]}".removesuffix(".") for each in used[new]})
    return lines


def rename_uses(source: Source, done: Rewritten, table: Table) -> list[str]:
    """Edit every use of a renamed name; returns sentences about renames that collide with local variables."""
    trouble: list[str] = []
    if not done.names and not done.dissolved and not done.moved and not done.spread:
        return trouble
    uses = {id(node) for node in globals_used(source.tree)}
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and id(node.value) in uses:
            if (spread := done.spread.get(node.value.id)) is not None:
                source.replace(node, spread[node.attr])
                uses.discard(id(node.value))
            elif (old := done.dissolved.get(node.value.id)) is not None:
                source.replace(node, table.name(old, node.attr))
            elif (moved := done.moved.get(node.value.id)) and (moved[0], node.attr) in table.names:
                source.replace(node, f"{moved[1]}.{table.name(moved[0], node.attr)}")
        elif isinstance(node, ast.Name) and id(node) in uses and "" in done.spread.get(node.id, ()):
            source.replace(node, done.spread[node.id][""])
        elif isinstance(node, ast.Name) and id(node) in uses and node.id in done.names:
            source.replace(node, done.names[node.id])
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node in source.tree.body:
            if (new := done.names.get(node.name)) is not None:
                start = source.at(node.lineno, node.col_offset)
                head = source.text[start : start + 400]
                place = start + re.search(rf"\b{node.name}\b", head).start()  # type: ignore[union-attr]
                source.edits.append(Edit(place, place + len(node.name), new))
        elif isinstance(node, ast.Global):
            names = [done.names.get(name, name) for name in node.names]
            if names != node.names:
                source.replace(node, f"global {', '.join(names)}")
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "cast" and node.args:
            _rename_in_text(source, node.args[0], done.names)
    modules = {text.partition(".")[0]: bound for bound, each in done.spread.items() for text in each.values()}
    for scope in ast.walk(source.tree):
        if isinstance(scope, Functions):
            inside = {
                node.value.id
                for node in ast.walk(scope)
                if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)
            }
            trouble += [
                f"line {scope.lineno}: a local {name} would catch the module that stands for {modules[name]}"
                for name in bound_here(scope) & set(modules)
                if modules[name] in inside and modules[name] != name
            ]
    for scope in ast.walk(source.tree):
        if isinstance(scope, Functions) and (caught := bound_here(scope) & set(done.names.values())):
            inside = {node.id for node in ast.walk(scope) if isinstance(node, ast.Name) and id(node) in uses}
            trouble += [
                f"line {scope.lineno}: a local {name} would catch the new name"
                for old, name in done.names.items()
                if name in caught and old in inside and old != name
            ]
    return trouble


def _rename_in_text(source: Source, node: ast.expr, names: dict[str, str]) -> None:
    """Rename in text such as ``cast("Text", …)``."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        start, end = source.span(node)
        text = re.sub(r"\w+", lambda found: names.get(found[0], found[0]), source.text[start:end])
        source.edits.append(Edit(start, end, text))


@dataclass
class Section:
    """One old module that becomes part of a new one."""

    module: str
    text: str
    imports: list[str]
    only_types: list[str]
    public: list[str]
    doc: str
    needs: set[str]
    """Old modules that it imports at import time."""
    defined: dict[str, str]
    """Top-level names, and the text of the statement that binds each."""
    used: set[str]


def section(module: str, table: Table) -> tuple[Section, list[str]]:
    source = Source(path_of(module).read_text(encoding="utf-8"))
    own = table.new[module]
    needs = {
        found
        for node in source.tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
        for found in (table.home(node.module, alias.name)[0], f"{node.module}.{alias.name}")
        if found != module and table.new.get(found) == own
    }
    trouble = rename_uses(source, rewrite(source, table, own, module), table)
    after = Source(source.edited())
    imports, only_types, public, doc = [], [], [], ast.get_docstring(after.tree) or ""
    defined: dict[str, str] = {}
    for place, node in enumerate(after.tree.body):
        text = after.text[slice(*after.span(node))]
        match node:
            case ast.Expr(value=ast.Constant(value=str())) if place == 0:
                after.remove_lines(node)
            case ast.Import() | ast.ImportFrom():
                after.remove_lines(node)
                if text != FUTURE:
                    imports.append(text)
            case ast.If(test=ast.Name(id="TYPE_CHECKING"), orelse=[]) if all(
                isinstance(each, ast.Import | ast.ImportFrom | ast.Pass) for each in node.body
            ):
                after.remove_lines(node)
                only_types += [
                    after.text[slice(*after.span(each))] for each in node.body if not isinstance(each, ast.Pass)
                ]
            case ast.Assign(targets=[ast.Name(id="__all__")], value=ast.List(elts=listed)):
                after.remove_lines(node)
                names = [str(ast.literal_eval(each)) for each in listed]
                public += [table.name(module, name) for name in names]
            case _:
                defined.update(dict.fromkeys(bound_here(ast.Module([node], [])), text))
    used = {node.id for node in globals_used(after.tree)}
    made = Section(module, after.edited().strip("\n"), imports, only_types, public, doc, needs, defined, used)
    return made, [f"{module}: {each}" for each in trouble]


def in_order(sections: list[Section]) -> list[Section]:
    """The sections in an order that satisfies imports at import time; otherwise in the table's order."""
    done: list[Section] = []
    left = list(sections)
    while left:
        ready = next(
            (each for each in left if not each.needs & {other.module for other in left if other is not each}), None
        )
        if ready is None:
            raise SystemExit(f"these import each other: {', '.join(each.module for each in left)}")
        left.remove(ready)
        done.append(ready)
    return done


def merge(new: str, table: Table) -> tuple[str, list[str]]:
    """The text of the new module, and its conflicts."""
    sections, trouble = [], []
    for old in table.modules[new]:
        made, wrong = section(old, table)
        sections.append(made)
        trouble += wrong
    owner: dict[str, Section] = {}
    for each in sections:
        for name, text in each.defined.items():
            other = owner.setdefault(name, each)
            if other is each:
                continue
            if other.defined[name] != text:
                trouble.append(f"{new}: {other.module} and {each.module} both have {name}")
            else:
                each.text = each.text.replace(text, "", 1)
    imported: dict[str, set[str]] = {}
    for each in sections:
        for line in (*each.imports, *each.only_types):
            for name, target in _imported(line):
                imported.setdefault(name, set()).add(target)
                if name in owner:
                    trouble.append(f"{new}: {each.module} imports {name}, {owner[name].module} has its own")
        hidden = {name for name in each.used if hasattr(builtins, name) and name in owner and name not in each.defined}
        trouble += [f"{new}: {name} of {owner[name].module} hides a builtin in {each.module}" for name in hidden]
    trouble += [
        f"{new}: {name} is imported as {' and as '.join(sorted(of))}" for name, of in imported.items() if len(of) > 1
    ]
    return _written(new, in_order(sections), sections[0].doc, table), trouble


def _imported(line: str) -> Iterator[tuple[str, str]]:
    (node,) = ast.parse(textwrap.dedent(line)).body
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield binding(alias), alias.name if alias.asname else binding(alias)
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            yield binding(alias), f"{node.module}.{alias.name}"


def _written(new: str, sections: list[Section], first_doc: str, table: Table) -> str:
    doc = table.docs.get(new, _without_warning(first_doc))
    real = list(dict.fromkeys(line for each in sections for line in each.imports))
    have = {name for line in real for name, _ in _imported(line)}
    types = list(dict.fromkeys(line for each in sections for line in each.only_types))
    types = [line for line in types if not {name for name, _ in _imported(line)} <= have]
    if types and "TYPE_CHECKING" not in have:
        real.append("from typing import TYPE_CHECKING")
    public = sorted({name for each in sections for name in each.public})
    parts = [f'"""{doc}\n"""' if "\n" in doc else f'"""{doc}"""', FUTURE, "\n".join(real)]
    if types:
        parts.append("if TYPE_CHECKING:\n" + textwrap.indent("\n".join(map(textwrap.dedent, types)), "    "))
    if public:
        parts.append(f"__all__ = [{', '.join(f'{chr(34)}{name}{chr(34)}' for name in public)}]")
    for each in sections:
        heading = "" if each.doc == first_doc and new not in table.docs else _comment(_without_warning(each.doc))
        parts.append("\n".join(part for part in (heading, each.text) if part))
    return "\n\n".join(part for part in parts if part) + "\n"


def _without_warning(doc: str) -> str:
    """The docstring without "What must not live here", which does not fit the larger new module."""
    kept = re.sub(r"\s*What must not live here\b[^.]*(?:\.\w[^.]*)*\.(?=\s|$)", "", doc, flags=re.DOTALL)
    return kept.strip()


def _comment(doc: str) -> str:
    """The docstring as a comment, wrapped again, lists and tables by item; indented text stays unchanged."""
    lines = []
    for paragraph in doc.split("\n\n"):
        if paragraph.startswith(" "):
            lines += paragraph.splitlines()
        else:
            for item in re.split(r"\n(?=\||[-*] |\d+\. )", paragraph):
                indent = re.match(r"(\||[-*] |\d+\. )?", item)[0]  # type: ignore[index]
                rest = " " * (2 if indent == "|" else len(indent))
                lines += textwrap.wrap(" ".join(item.split()), WIDTH - 2, subsequent_indent=rest)
        lines.append("")
    return "\n".join(f"# {line}".rstrip() for line in lines[:-1])


def files() -> list[Path]:
    """All text files in git, except records of the past, and the tables, which are about old names."""
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, check=True, text=True).stdout
    found = [ROOT / line for line in listed.splitlines() if line.endswith(TEXT)]
    kept = {"results", "moves", "CHANGELOG.md"}
    return [each for each in found if each.exists() and not kept & {*each.parts}]


def everywhere_else(table: Table, skipped: set[Path]) -> Iterator[tuple[Path, str, list[str]]]:
    """All other files with changed imports or names, each with its new text."""
    for path in files():
        if path in skipped:
            continue
        text = before = path.read_text(encoding="utf-8")
        trouble: list[str] = []
        if path.suffix == ".py":
            source = Source(text)
            trouble = rename_uses(source, rewrite(source, table, None), table)
            text = source.edited()
        text = dotted(text, table, python=path.suffix == ".py")
        if text != before:
            yield path, text, [f"{path.relative_to(ROOT)}: {each}" for each in trouble]


def dotted(text: str, table: Table, python: bool = True) -> str:
    """Replace dotted names and paths of old modules; in Python not after ``from``, which `rewrite` has handled."""
    moved = {old: new for old, new in table.new.items() if old != new}
    for (module, name), new in table.names.items():
        moved[f"{module}.{name}"] = f"{table.new.get(module, module)}.{new}"
    if not moved:
        return text
    moved |= {new: new for new in table.modules}  # a new name may have an old one as its prefix
    names = "|".join(re.escape(old) for old in sorted(moved, key=len, reverse=True))
    done = "(?<!from )" if python else ""
    text = re.sub(rf"{done}(?<![\w.])({names})(?!\w)", lambda found: moved[found[1]], text)
    paths = {old.removeprefix("penstock.").replace(".", "/") + ".py": new for old, new in table.new.items()}
    wanted = "|".join(re.escape(old) for old in sorted(paths, key=len, reverse=True))

    def path(found: re.Match[str]) -> str:
        return f"{found[1]}{paths[found[2]].removeprefix('penstock.').replace('.', '/')}.py"

    return re.sub(rf"(?<![\w/])((?:src/)?(?:penstock/)?)({wanted})(?![\w.])", path, text)


def circles(table: Table) -> Iterator[str]:
    """New modules that would import each other at import time, each with the names it needs from the others."""
    needs: dict[str, set[str]] = {}
    why: dict[tuple[str, str], str] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        module = ".".join(path.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__")
        if module in table.facades:
            continue
        new = table.new.get(module, module)
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    old = f"{node.module}.{alias.name}"
                    home, _ = table.home(node.module, alias.name)
                    target = table.new.get(old) or table.new.get(home, home)
                    if target != new:
                        needs.setdefault(new, set()).add(target)
                        why.setdefault((new, target), f"{module} imports {alias.name} of {node.module}")
    reached = {new: _reached(new, needs) for new in table.modules}
    for new in table.modules:
        for target in sorted(needs.get(new, ())):
            if new in _reached(target, needs) and target in reached[new]:
                yield f"in a circle: {new} -> {target}: {why[new, target]}"


def _reached(start: str, needs: dict[str, set[str]]) -> set[str]:
    found: set[str] = set()
    left = [*needs.get(start, ())]
    while left:
        if (each := left.pop()) not in found:
            found.add(each)
            left += needs.get(each, ())
    return found


def main(words: list[str]) -> int:
    table = Table.read(Path(words[0]))
    if missing := [old for old in table.new if not path_of(old).exists()]:
        raise SystemExit(f"not there: {', '.join(missing)}")
    made = {new: merge(new, table) for new in table.modules}
    old_files = {path_of(old) for old in (*table.new, *table.facades)}
    others = list(everywhere_else(table, old_files))
    trouble = [*circles(table)]
    trouble += [each for _, wrong in made.values() for each in wrong] + [
        each for _, _, wrong in others for each in wrong
    ]
    for line in dict.fromkeys(trouble):
        print(line)
    if "--write" not in words:
        print(f"{len(old_files)} modules to {len(made)}; {len(others)} other files change; {len(trouble)} in the way")
        return int(bool(trouble))
    if trouble:
        return 1
    write(table, {new: text for new, (text, _) in made.items()}, old_files)
    for path, text, _ in others:
        path.write_text(text, encoding="utf-8")
    return 0


def write(table: Table, made: dict[str, str], old_files: Iterable[Path]) -> None:
    old_files = set(old_files)
    targets = {new: _target(new, made, old_files) for new in made}
    for path in old_files - set(targets.values()):
        subprocess.run(["git", "rm", "-q", "--cached", str(path)], cwd=ROOT, check=True)
        path.unlink()
    for new, text in made.items():
        targets[new].parent.mkdir(parents=True, exist_ok=True)
        targets[new].write_text(dotted(text, table), encoding="utf-8")
        for folder in targets[new].parents:
            if folder == SOURCE:
                break
            if not (folder / "__init__.py").exists():
                package = ".".join(folder.relative_to(SOURCE).parts)
                (folder / "__init__.py").write_text(f'"""{table.docs.get(package, "")}"""\n', encoding="utf-8")
    for folder in sorted({path.parent for path in old_files}, reverse=True):
        if folder.exists() and not any(each.is_file() and each.suffix != ".pyc" for each in folder.rglob("*")):
            shutil.rmtree(folder)


def _target(new: str, made: Iterable[str], going: set[Path]) -> Path:
    base = SOURCE.joinpath(*new.split("."))
    package = any(each not in going for each in base.rglob("*.py")) or any(
        other.startswith(f"{new}.") for other in made
    )
    return base / "__init__.py" if package else base.with_suffix(".py")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
