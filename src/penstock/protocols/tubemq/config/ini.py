"""Options in an INI file as TubeMQ's C++ client reads it: sections, ``key=value``, comments behind ``;`` or ``//``.

``[TubeMQ]`` is for every client (its own keys, ``log_level`` and the like, mean nothing here and are let pass), and
``[consumer]``, ``[producer]``, ``[reader]`` for one role. Names as everywhere. Other sections are other programs': the
C++ client looks at none but its own, and here a warning says which ones were passed over, for one may be misspelt.
Source: Apache InLong TubeMQ 2.x, C++ client, ``conf/client.conf`` and ``flexible INI`` reader.
What must not live here: reading files.
"""

from __future__ import annotations

from typing import Final

from penstock.config.client import ClientLog
from penstock.config.fields import normal
from penstock.config.options import OptionValue
from penstock.errors import ConfigError
from penstock.protocols.tubemq.config.spellings import TUBE_MEANINGLESS

__all__ = ["SECTIONS", "ini_options"]

SECTIONS: Final = ("tubemq", "client", "consumer", "producer", "reader")
_COMMENTS: Final = (";", "#", "//")
_HINT: Final = "TubeMQ's sections are [TubeMQ], [consumer], [producer], [reader]"
_LOG: Final = ClientLog("penstock.client")


def ini_options(text: str, role: str, source: str = "the INI file") -> dict[str, OptionValue]:
    """The options that ``text`` holds for ``role``; what its own section says wins. Raises ConfigError.

    >>> ini_options("[TubeMQ]\\n// unit: M\\nlog_size=100\\nmasterAddrInfo=127.0.0.1:8715\\n", "consumer")
    {'masterAddrInfo': '127.0.0.1:8715'}
    """
    shared: dict[str, OptionValue] = {}
    own: dict[str, OptionValue] = {}
    section: str | None = None
    strange = False
    for number, line in enumerate(text.splitlines(), 1):
        line = line.strip()
        if not line or line.startswith(_COMMENTS):
            continue
        if line.startswith("["):
            section = _section(line, f"line {number} of {source}")
            if strange := section not in SECTIONS:
                _LOG.warning("section %s in line %d of %s is passed over. %s", line, number, source, _HINT)
            continue
        if strange:
            continue
        key, equals, value = (part.strip() for part in line.partition("="))
        if not equals or not key:
            raise ConfigError(f"line {number} of {source} is {line!r}", hint="Write key=value")
        if section is None:
            raise ConfigError(f"line {number} of {source} stands before any section", hint="Begin with [TubeMQ]")
        if normal(key) in TUBE_MEANINGLESS or section not in ("tubemq", "client", role):
            continue
        target = own if section == role else shared
        if key in target:
            raise ConfigError(f"{key} stands twice in {source}, the second time in line {number}")
        target[key] = value
    return {**shared, **own}


def _section(line: str, where: str) -> str:
    name = line[1:-1].strip().lower()
    if not line.endswith("]"):
        raise ConfigError(f"{where} is {line!r}", hint=_HINT)
    return name
