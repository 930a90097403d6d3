"""What a foreign client can be asked, and records that show where clients differ: nulls, empties, headers, sizes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Sample:
    """One record as it should arrive; ``timestamp_ms`` is set by the producer."""

    key: bytes | None
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...] = ()
    timestamp_ms: int = 1_700_000_000_000


@dataclass(frozen=True, slots=True)
class Foreign:
    """``produce(bootstrap, topic, samples, codec)`` returns when all are acknowledged.

    ``consume(bootstrap, topic, group, count)`` joins the group, reads ``count`` records, commits and leaves.
    """

    name: str
    null_headers: bool
    """Whether it can send a header without a value."""
    produce: Callable[[str, str, Sequence[Sample], str], None]
    consume: Callable[[str, str, str, int], list[Sample]]

    def __str__(self) -> str:
        return self.name

    def sendable(self, wanted: Sequence[Sample]) -> list[Sample]:
        """``wanted`` without what this client refuses to send."""
        if self.null_headers:
            return list(wanted)
        return [replace(each, headers=tuple(h for h in each.headers if h[1] is not None)) for each in wanted]


def samples(count: int) -> list[Sample]:
    """``count`` records, the first few of them awkward."""
    awkward = [
        Sample(None, b"no key"),
        Sample(b"no value", None),
        Sample(b"", b""),
        Sample(b"headers", b"x", (("a", b"1"), ("a", b"2"), ("null", None), ("empty", b""), ("ü", b"\xff"))),
        Sample(b"large", b"z" * 3_000),
    ]
    plain = [Sample(b"k%d" % n, b"value %d" % n, timestamp_ms=1_700_000_000_000 + n) for n in range(count)]
    return (awkward + plain)[:count]
