"""Reading the parameters of an administrative call: there or not, of the right form, or a refusal that says which."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused

__all__ = ["Parameters"]

_TOPIC: Final = re.compile(r"[a-zA-Z]\w{1,63}", re.ASCII)
_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0"})
_MOST_NAMES: Final = 1_000


class Parameters:
    """Each method raises Refused (BAD_REQUEST) for what is missing, blank or of another form."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given

    def optional(self, name: str) -> str:
        """The value, trimmed; empty where there is none."""
        return self._given.get(name, "").strip()

    def text(self, name: str) -> str:
        """A value that must be there."""
        value = self.optional(name)
        if not value:
            raise _refused(f"Parameter {name} is missing or value is blank!")
        return value

    def user(self, *names: str) -> str:
        """Who asks: one of ``names`` must be there (createUser where something is made, else modifyUser)."""
        found = next((value for name in names if (value := self.optional(name))), "")
        return found or self.text(names[0])

    def names(self, name: str, *, required: bool = False) -> list[str]:
        """A list between commas, each name once."""
        found = list(dict.fromkeys(part.strip() for part in self.optional(name).split(",") if part.strip()))
        if required and not found:
            self.text(name)
        if len(found) > _MOST_NAMES:
            raise _refused(f"Parameter {name} has {len(found)} names, {_MOST_NAMES} are allowed")
        return found

    def new_topics(self) -> list[str]:
        """Names that topics can be given."""
        topics = self.names("topicName", required=True)
        for topic in topics:
            if not _TOPIC.fullmatch(topic):
                raise _refused(
                    "illegal value for topicName, value must begin with a letter, "
                    "can only contain English letters, numbers, and underscores"
                )
        return topics

    def number(self, name: str, default: int | None = None, *, low: int, high: int = 2**63 - 1) -> int:
        """A whole number; ``default`` None: it must be there."""
        text = self.optional(name) if default is not None else self.text(name)
        if not text and default is not None:
            return default
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not low <= int(text) <= high:
            raise _refused(f"Parameter {name} value must be a number from {low} to {high}, it is {text[:80]!r}")
        return int(text)

    def flag(self, name: str) -> bool | None:
        """True, False, or None where nothing is said."""
        text = self.optional(name).lower()
        if text and text not in _TRUE | _FALSE:
            raise _refused(f"Parameter {name} value must be true or false, it is {text[:80]!r}")
        return None if not text else text in _TRUE


def _refused(message: str) -> Refused:
    return Refused(Code.BAD_REQUEST, message)
