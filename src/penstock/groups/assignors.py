"""The assignors there are, by the names that members agree on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.errors import ConfigError
from penstock.groups.assignor import Assignor
from penstock.groups.range_assignor import RangeAssignor

__all__ = ["ASSIGNORS", "assignors_named"]

ASSIGNORS: Final[Mapping[str, Assignor]] = {each.name: each for each in (RangeAssignor(),)}


def assignors_named(names: Sequence[str]) -> tuple[Assignor, ...]:
    """The assignors of these names, in their order. Raises ConfigError for one that is not there, or for none."""
    unknown = [name for name in names if name not in ASSIGNORS]
    if unknown or not names:
        raise ConfigError(
            f"there is no assignor {unknown[0]!r}" if unknown else "a group member needs an assignor",
            hint=f"Use one of {', '.join(ASSIGNORS)}.",
        )
    return tuple(ASSIGNORS[name] for name in names)
