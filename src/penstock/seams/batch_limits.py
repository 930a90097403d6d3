"""How large batches may be where a server refused larger ones.

A server says only that a batch was too large, not what it takes. So the target is halved with each refusal, and kept
for the batches that follow. As an operator may raise the limit, the target is doubled once in a while; if that was too
much, one batch is refused, and the target is what it was before.
"""

from __future__ import annotations

from penstock._dataclasses import dataclass

__all__ = ["BatchLimits"]


@dataclass(slots=True)
class _Limit:
    bytes: int
    grows_at: float


class BatchLimits:
    """Targets by topic (or by broker), in bytes. Times are in seconds, of the caller's clock."""

    __slots__ = ("_grows_after_s", "_limits", "_most_bytes")

    def __init__(self, most_bytes: int, grows_after_s: float) -> None:
        self._most_bytes = most_bytes
        self._grows_after_s = grows_after_s
        self._limits: dict[str, _Limit] = {}

    def of(self, name: str, now: float) -> int:
        """How large the next batch may be."""
        if not self._limits or (limit := self._limits.get(name)) is None:
            return self._most_bytes
        if now >= limit.grows_at:
            limit.bytes *= 2
            limit.grows_at = now + self._grows_after_s
            if limit.bytes >= self._most_bytes:
                del self._limits[name]
                return self._most_bytes
        return limit.bytes

    def refused(self, name: str, size: int, now: float) -> int:
        """Note that a batch of ``size`` bytes and several records was too large; returns the target from now on."""
        # Several batches may be under way when the first is refused: each halves its own size, not the others' result.
        target = min(self.of(name, now), max(1, size // 2))
        self._limits[name] = _Limit(target, now + self._grows_after_s)
        return target
