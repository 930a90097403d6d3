"""FILES.md, the File Map, written from the first sentence of every module's docstring.

So the map says what the modules say, and a module that is added, moved or deleted cannot be forgotten in it.
``python -m tools.file_map`` rewrites the map in place, ``--check`` only tells whether it is true.
"""

from __future__ import annotations

import ast
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SOURCE = ROOT / "src"
PAGE = ROOT / "FILES.md"
BEGIN = "<!-- file map: written by ./dev check --fix -->"
END = "<!-- end of file map -->"


def first_sentence(file: Path) -> str:
    """Up to the first full stop that ends a sentence, in one line; the whole first paragraph if there is none."""
    docstring = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or "(says nothing)"
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"(?<=[.!?])\s+(?=[A-Z`])", paragraph, maxsplit=1)[0]


def entries() -> list[tuple[str, str]]:
    """(path under src/, what it says of itself), folders with a slash at the end, in the order of a directory tree."""
    found = []
    for file in sorted(SOURCE.rglob("*.py")):
        path = file.relative_to(SOURCE)
        if file.name == "__init__.py":
            found.append((f"{path.parent.as_posix()}/", first_sentence(file)))
        else:
            found.append((path.as_posix(), first_sentence(file)))
    return sorted(found)


def file_map() -> str:
    lines = []
    for path, sentence in entries():
        depth = path.rstrip("/").count("/")
        name = path if depth == 0 else path.removeprefix(path.rstrip("/").rpartition("/")[0] + "/")
        lines.append(f"{'  ' * depth}- `{name}` {sentence}")
    return "\n".join(lines)


def rewritten(page: str) -> str:
    """The page with a true map between its two marks."""
    head, begin, rest = page.partition(BEGIN)
    _, end, tail = rest.partition(END)
    if not begin or not end:
        raise SystemExit(f"{PAGE.name} has lost the marks of its File Map: {BEGIN} and {END}")
    return f"{head}{BEGIN}\n\n{file_map()}\n\n{END}{tail}"


def main(words: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    wanted = rewritten(page)
    if page == wanted:
        return 0
    if "--check" in words:
        print("FILES.md is not what the modules say; ./dev check --fix writes it anew")
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    print("FILES.md: written anew")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
