"""The zone of ``$msgTime$``: a message's minute is written as ``yyyyMMddHHmm``, without a zone.

Java's producers write what their application gives; InLong's DataProxy and SDKs give the minute in their system's zone,
and Java's own conversions read it so. What is UTC here, by default, is therefore hours off where they run elsewhere.
Source: Apache InLong TubeMQ 2.x, ``Message.putSystemHeader`` and ``DateTimeConvertUtils``; InLong, ``TubeHandler``.
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Final

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError

__all__ = ["MsgTimeZone", "msg_time_zone"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_OFFSET: Final = re.compile(r"([+-])([01]?\d|2[0-3]):?([0-5]\d)", re.ASCII)
_MINUTE: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class MsgTimeZone:
    """A zone other than UTC; ``zone`` None is the one of this process, whatever that is at the time.

    Times are milliseconds: since 1970 in UTC, or, *local* ones, what a clock on the wall has counted since then.
    """

    zone: tzinfo | None

    def utc_ms(self, local_ms: int) -> int:
        """The moment of a whole minute; of two that a clock which is put back shows twice, the first."""
        return _utc_ms(self.zone, local_ms)

    def local_ms(self, utc_ms: int) -> int:
        """What the clock shows at a moment; the moment itself outside of the years 2 to 9998."""
        return utc_ms + _shift_ms(self.zone, utc_ms // 60_000)


def msg_time_zone(text: str) -> MsgTimeZone | None:
    """The zone that an option names; None for UTC. Raises ConfigError.

    >>> msg_time_zone("+08:00").local_ms(0)
    28800000
    """
    name = text.strip()
    if name.upper() in {"UTC", "Z", "GMT"}:
        return None
    if name.lower() == "local":
        return MsgTimeZone(None)
    if match := _OFFSET.fullmatch(name):
        offset = timedelta(hours=int(match[2]), minutes=int(match[3]))
        return MsgTimeZone(timezone(-offset if match[1] == "-" else offset)) if offset else None
    from zoneinfo import ZoneInfo

    try:
        return MsgTimeZone(ZoneInfo(name))
    except (KeyError, ValueError, OSError):  # ZoneInfoNotFoundError is a KeyError; a folder's name is an OSError
        raise ConfigError(
            f"msg_time_zone is {text!r}, which is no zone here",
            hint="Write UTC, local, an offset as +08:00, or a name as Asia/Shanghai (pip install tzdata, if it is one)",
        ) from None


@functools.lru_cache(4_096)
def _utc_ms(zone: tzinfo | None, local_ms: int) -> int:
    try:
        shown = (_EPOCH + timedelta(milliseconds=local_ms)).replace(tzinfo=zone)
        return round(shown.timestamp()) * 1_000
    except (OverflowError, ValueError, OSError):
        return local_ms  # the first or the last days that there are


@functools.lru_cache(4_096)
def _shift_ms(zone: tzinfo | None, utc_minute: int) -> int:
    try:
        shown = (_EPOCH + utc_minute * _MINUTE).astimezone(zone)
        offset = shown.utcoffset()
    except (OverflowError, ValueError, OSError):
        return 0
    return 0 if offset is None else round(offset.total_seconds()) * 1_000
