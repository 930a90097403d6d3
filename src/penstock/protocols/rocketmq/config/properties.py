"""Options in a Java properties file, as RocketMQ's tools and examples keep them: ``namesrvAddr=a:9876;b:9876``.

Lines of ``key=value``, ``key: value`` or ``key value``; ``#`` and ``!`` begin comments; a backslash at a line's end
goes on in the next one. Names as everywhere, also with ``rocketmq.`` or ``rocketmq.client.`` before them.
Source: Java, ``Properties.load`` (without its ``\\uXXXX``: files are UTF-8).
What must not live here: reading files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from penstock.config.options import OptionValue
from penstock.errors import ConfigError

__all__ = ["property_options"]

_LINE: Final = re.compile(r"([^\s=:]+)\s*[=:\s]\s*(.*)")
_PREFIX: Final = re.compile(r"(com\.)?rocketmq\.(client\.)?", re.IGNORECASE)


def property_options(text: str, role: str, source: str = "the properties file") -> dict[str, OptionValue]:
    """The options that ``text`` holds, the same for every role. Raises ConfigError.

    >>> property_options("# where\\nrocketmq.namesrv.addr = 127.0.0.1:9876\\n", "consumer")
    {'namesrv.addr': '127.0.0.1:9876'}
    """
    del role
    found: dict[str, OptionValue] = {}
    for number, line in _lines(text):
        match = _LINE.fullmatch(line)
        if match is None:
            raise ConfigError(f"line {number} of {source} is {line!r}", hint="Write key=value")
        name = _PREFIX.sub("", match[1], count=1)
        if name in found:
            raise ConfigError(f"{match[1]} stands twice in {source}, the second time in line {number}")
        found[name] = match[2].strip()
    return found


def _lines(text: str) -> Iterator[tuple[int, str]]:
    """Lines that say something, by the number of their first one."""
    begun, before = 0, ""
    for number, line in enumerate(text.splitlines(), 1):
        part = line.strip()
        if not before:
            begun = number
            if not part or part[0] in "#!":
                continue
        if part.endswith("\\"):
            before += part[:-1]
            continue
        yield begun, before + part
        before = ""
    if before:
        yield begun, before
