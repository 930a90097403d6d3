"""The command line as it was installed: where it is, its verbs, and the examples that help texts and README print.

What must not live here: what any verb does.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final, Protocol, cast

import typer

from penstock.cli.app import app

__all__ = ["SCRIPTS", "VERBS", "examples"]

_ROOT: Final = Path(__file__).parents[2]
SCRIPTS: Final = Path(sys.executable).parent
"""Where pip puts ``penstock``."""
_INDENTED: Final = re.compile(r"^ {2,4}((?:cat [^|\n]+\| )?penstock [^\n]+)$", re.MULTILINE)


class _Command(Protocol):
    epilog: str | None
    commands: dict[str, _Command]


def _walk(command: _Command, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], _Command]]:
    yield words, command
    for name, each in getattr(command, "commands", {}).items():
        yield from _walk(each, (*words, name))


_COMMANDS: Final = dict(_walk(cast("_Command", typer.main.get_command(app))))
VERBS: Final = tuple(_COMMANDS)
"""Each verb and sub-verb as words; the first one is ``penstock`` itself."""


def examples() -> list[str]:
    """Every ``penstock`` command line that they print, each once. Those under docs/ are run by ``tests/docs``."""
    texts = [command.epilog or "" for command in _COMMANDS.values()]
    texts.append((_ROOT / "README.md").read_text(encoding="utf-8"))
    return list(dict.fromkeys(line for text in texts for line in _INDENTED.findall(text)))
