"""Which version of each request one broker and this client have in common. Found out once per connection."""

from __future__ import annotations

from collections.abc import Mapping

from penstock.errors import ErrorKind, ServerError
from penstock.protocols.kafka.messages.codec import declared

__all__ = ["Versions"]

_UNSUPPORTED_VERSION = 35


class Versions:
    """What a broker advertised in its ApiVersions answer: lowest and highest version by API key, and the levels of the
    features that its cluster has agreed on (KIP-584)."""

    __slots__ = ("_features", "_ranges")

    def __init__(self, ranges: Mapping[int, tuple[int, int]], features: Mapping[str, int] | None = None) -> None:
        self._ranges = dict(ranges)
        self._features = dict(features or {})

    def best(self, request: type, at_most: int | None = None) -> int:
        """The highest version both sides have. Raises ServerError (UNSUPPORTED_VERSION) where there is none."""
        api = declared(request)
        theirs = self._ranges.get(api.key)
        highest = api.highest if at_most is None else min(api.highest, at_most)
        if theirs is not None:
            version = min(highest, theirs[1])
            if version >= max(api.lowest, theirs[0]):
                return version
        name = request.__name__.removesuffix("Request")
        raise ServerError(
            f"the broker does not serve {name}"
            if theirs is None
            else f"the broker serves {name} {theirs[0]} to {theirs[1]}, this client {api.lowest} to {highest}",
            code=_UNSUPPORTED_VERSION,
            name="UNSUPPORTED_VERSION",
            kind=ErrorKind.UNSUPPORTED,
        )

    def feature(self, name: str) -> int:
        """The level of a feature; 0 where the cluster has none."""
        return self._features.get(name, 0)

    def has(self, request: type) -> bool:
        """Whether the broker serves this request at all."""
        return declared(request).key in self._ranges
