"""What somebody meant who wrote a name that is not there: the one it looks like, or else the few nearest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SURE: Final = 0.7
_FEW: Final = 3


def nearest(word: str, spellings: Mapping[str, str]) -> list[str]:
    """One name that ``word`` is surely meant for, or a few; ``spellings`` maps what may be written to names."""
    from difflib import get_close_matches  # rarely needed

    near = get_close_matches(word, spellings, n=1, cutoff=_SURE)
    # Some are spellings of the same name.
    near = near or get_close_matches(word, spellings, n=_FEW * 3, cutoff=0.0)
    return list(dict.fromkeys(spellings[each] for each in near))[:_FEW]
