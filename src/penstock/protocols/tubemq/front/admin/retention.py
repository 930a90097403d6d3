"""How long data is kept: TubeMQ's policy (``delete,168h``) and the topic option that says the same."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused

__all__ = ["policy_of", "retention_of"]

_POLICY: Final = re.compile(r"delete,([0-9]{1,7})([hms]?)")
_MS: Final = {"": 3_600_000, "h": 3_600_000, "m": 60_000, "s": 1_000}
_DEFAULT_MS: Final = 7 * 24 * 3_600_000
_OPTION: Final = "retention.ms"


def retention_of(policy: str) -> dict[str, str]:
    """The topic options that a policy means; none for an empty one. Raises Refused (BAD_REQUEST)."""
    if not policy:
        return {}
    found = _POLICY.fullmatch(policy.replace(" ", ""))
    if found is None or not int(found[1]):
        raise Refused(Code.BAD_REQUEST, f"Parameter deletePolicy is {policy[:80]!r}, wanted is delete,<number>[h|m|s]")
    return {_OPTION: str(int(found[1]) * _MS[found[2]])}


def policy_of(config: Mapping[str, str]) -> str:
    """The policy of a topic with these options; without a limit it is the longest that can be said."""
    ms = int(config.get(_OPTION, _DEFAULT_MS))
    if ms < 0:
        return "delete,9999999h"
    for unit in "hms":
        if ms % _MS[unit] == 0:
            return f"delete,{ms // _MS[unit]}{unit}"
    return f"delete,{max(1, ms // 1_000)}s"
