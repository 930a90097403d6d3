"""The shapes of the administration's answers. Data only; `routes` adds ``result``, ``errCode`` and ``errMsg``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Final

from penstock.protocols.tubemq.front.faults import Refused

__all__ = ["CONDITION", "EXISTS", "UNKNOWN", "Answer", "date", "done", "from_broker", "from_master", "item"]

Answer = Mapping[str, Any]

EXISTS: Final = 402
UNKNOWN: Final = 401
CONDITION: Final = 406
"""Codes of a row: what is to be made is there; what is to be changed is not; it is not in the state for that."""


def from_master(rows: Sequence[Any]) -> Answer:
    """A master's list."""
    return {"data": rows, "count": len(rows)}


def from_broker(rows: Sequence[Any], count: str = "totalCnt") -> Answer:
    """A broker's list, which has other names for the same."""
    return {"errMsg": "Success!", "dataSet": rows, count: len(rows)}


def done() -> Answer:
    """Nothing to tell."""
    return {}


def item(refused: Refused | None = None, **names: object) -> Answer:
    """One part of a batch call: what it was about, and how it went."""
    if refused is None:
        return {**names, "success": True, "errCode": 200, "errInfo": "Ok!"}
    return {**names, "success": False, "errCode": refused.code, "errInfo": refused.message}


def date(now_ms: int) -> str:
    """A time as the real servers show it, in UTC; empty for none."""
    return datetime.fromtimestamp(now_ms / 1_000, UTC).strftime("%Y%m%d%H%M%S") if now_ms > 0 else ""
