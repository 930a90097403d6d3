"""The code of a page under docs/, run as it stands there: so a page and its test cannot differ.

Pages show one address and one folder, those of nobody; a test says what stands for them. What must not live here: what
any page is about.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from textwrap import dedent
from typing import Any

__all__ = ["FOLDER", "PAGES", "SERVER", "Block", "Page"]

PAGES = Path(__file__).parents[2] / "docs" / "spark"
SERVER = "kafka://broker:9092"
BOOTSTRAP = "broker:9092"
FOLDER = "/data"
_FENCE = re.compile(r"^( *)```(\w*)[^\n]*\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One fenced block; ``line`` is that of its first line in the page."""

    language: str
    text: str
    line: int


@dataclass(frozen=True)
class Page:
    """``docs/spark/<name>.md``."""

    name: str

    @property
    def path(self) -> Path:
        return PAGES / f"{self.name}.md"

    @cached_property
    def blocks(self) -> tuple[Block, ...]:
        text = self.path.read_text(encoding="utf-8")
        return tuple(
            # In a list, a block is indented as its item is.
            Block(found[2], dedent(found[3]), text.count("\n", 0, found.start(3)) + 1)
            for found in _FENCE.finditer(text)
        )

    def code(self, language: str, server: str, folder: Path | str) -> list[str]:
        """The blocks in a language, in their order, with a server and a folder that are there."""
        found = [each.text for each in self.blocks if each.language == language]
        assert found, f"{self.path.name} shows no {language}"
        bootstrap = server.partition("://")[2]
        return [
            each.replace(SERVER, server).replace(BOOTSTRAP, bootstrap).replace(FOLDER, str(folder)) for each in found
        ]

    def run(self, server: str, folder: Path | str, **names: Any) -> Mapping[str, Any]:
        """Run all Python of the page in one namespace that begins with ``names``; that namespace."""
        space: dict[str, Any] = {"__name__": f"page_{self.path.stem}", **names}
        blocks = [each for each in self.blocks if each.language == "python"]
        for block, code in zip(blocks, self.code("python", server, folder), strict=True):
            # Empty lines before it, so that a traceback names the line of the page.
            exec(compile("\n" * (block.line - 1) + code, str(self.path), "exec"), space)
        return space
