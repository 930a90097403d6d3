"""The note of a clean shutdown, ``clean-shutdown.json``: what each log looked like, so that nobody has to look.

It names the epoch that it closed. The next start has another epoch as soon as it may write, so a note that a crash
leaves behind is not believed. What must not live here: checking that the files are as the note says (`_recovery`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from typing import Final

from penstock.store._checked import check, checked
from penstock.store._directory import Directory
from penstock.store._state import CleanLog

__all__ = ["load_clean", "save_clean"]

_FILE: Final = "clean-shutdown.json"


def save_clean(directory: Directory, epoch: int, logs: Mapping[str, CleanLog]) -> None:
    """Durable when it returns; ``logs`` by the name of their directory. Raises OSError."""
    facts = {"epoch": epoch, "logs": {name: asdict(log) for name, log in logs.items()}}
    directory.replace(_FILE, checked(json.dumps(facts, separators=(",", ":")).encode()), durable=True)


def load_clean(directory: Directory, epoch: int) -> Mapping[str, CleanLog]:
    """Logs by the name of their directory; empty if ``epoch`` did not end with a note."""
    text = check(directory.load(_FILE))
    try:
        facts = json.loads(text) if text else {}
        if facts.get("epoch") != epoch:
            return {}
        return {name: CleanLog(**log) for name, log in facts["logs"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # looking at the logs is always right
