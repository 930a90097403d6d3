"""What names may look like.

Source: Apache Kafka 4.x, ``org.apache.kafka.common.internals.Topic``.
"""

from __future__ import annotations

import re
from typing import Final

from penstock.errors import UsageError

__all__ = ["check_topic"]

_MAX_TOPIC: Final = 249
_TOPIC: Final = re.compile(r"[a-zA-Z0-9._-]+")
_HINT: Final = "Letters, digits, '.', '_' and '-', at most 249, and neither '.' nor '..'"


def check_topic(name: str) -> None:
    """Raise UsageError for a name that no topic can have."""
    if len(name) > _MAX_TOPIC:
        raise UsageError(f"no topic can be called {name[:40] + '...'!r}, with {len(name)} characters", hint=_HINT)
    if not _TOPIC.fullmatch(name) or name in {".", ".."}:
        raise UsageError(f"no topic can be called {name!r}", hint=_HINT)
