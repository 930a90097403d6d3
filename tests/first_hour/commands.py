"""The command line as it was installed: where it is, its verbs, and the examples that help texts and README print."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Final

from penstock.cli.app import VERBS as NAMES
from penstock.cli.app import parser_for

__all__ = ["SCRIPTS", "VERBS", "examples"]

_ROOT: Final = Path(__file__).parents[2]
SCRIPTS: Final = Path(sys.executable).parent
"""Where pip puts ``penstock``."""
_INDENTED: Final = re.compile(r"^ {2,4}((?:cat [^|\n]+\| )?penstock [^\n]+)$", re.MULTILINE)


VERBS: Final = ((), *dict.fromkeys(tuple(verb.split()[:n]) for verb in NAMES for n in (1, 2)))
"""Each verb and group of verbs as words; the first one is ``penstock`` itself."""


def examples() -> list[str]:
    """Every ``penstock`` command line that they print, each once. Those under docs/ are run by ``tests/docs``."""
    texts = [parser_for(verb).epilog or "" for verb in ("", *NAMES)]
    texts.append((_ROOT / "README.md").read_text(encoding="utf-8"))
    return list(dict.fromkeys(line for text in texts for line in _INDENTED.findall(text)))
