"""How options are called: the form in which names are compared, and what others call an option of ours.

Names are compared with dots and dashes read as underscores, so ``auto.offset.reset``, ``auto-offset-reset`` and
``auto_offset_reset`` are one. What must not live here: any protocol's spellings; they are rows in its own folder.
"""

from __future__ import annotations

from typing import Final

from penstock._dataclasses import dataclass

__all__ = ["BOOTSTRAP", "TOPICS", "Spelling", "normal"]

BOOTSTRAP: Final = "bootstrap_servers"
TOPICS: Final = "topics"
"""Not fields of a config: they fill the address."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """Other names of one option of ours; ``unit`` is what one of their units is in ours."""

    ours: str
    also: tuple[str, ...] = ()
    unit: int = 1


def normal(name: str) -> str:
    """The form in which names are compared."""
    return name.strip().lower().replace(".", "_").replace("-", "_")
