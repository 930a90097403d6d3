"""What groups are called at brokers: their names allow fewer letters than those of other protocols' groups. Pure.

What must not live here: offsets.
"""

from __future__ import annotations

import re
from typing import Final

__all__ = ["group_of", "rocket_group"]

_OTHER: Final = re.compile(r"[^|a-zA-Z0-9_-]")
_CODED: Final = re.compile(r"%u([0-9a-f]{1,6})%")


def rocket_group(group: str) -> str:
    """The name at brokers: every other letter by its number.

    >>> rocket_group("readers"), rocket_group("my.readers")
    ('readers', 'my%u2e%readers')
    """
    return _OTHER.sub(lambda found: f"%u{ord(found[0]):x}%", group)


def group_of(name: str) -> str:
    """What the group is called by its members.

    >>> group_of("my%u2e%readers"), group_of("%odd")
    ('my.readers', '%odd')
    """
    return _CODED.sub(lambda found: chr(int(found[1], 16)) if int(found[1], 16) < 0x110000 else found[0], name)
