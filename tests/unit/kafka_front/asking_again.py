"""What Kafka's clients do with the codes that tell of a loss: what is not done is asked for again, with the same ids.

A request of several parts asks again for those only that were not done, as clients do; the answers are put together.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from msgspec.structs import replace

from penstock.protocols.kafka.errors import ErrorCode, row
from penstock.protocols.kafka.wire.coordinator_admin import DeleteGroupsRequest
from penstock.protocols.kafka.wire.declarations import Message, all_fields
from penstock.protocols.kafka.wire.fetch import FetchRequest
from penstock.protocols.kafka.wire.produce import ProduceRequest
from penstock.protocols.kafka.wire.topics import CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest

__all__ = ["Asked", "lost_parts"]

LOST: Final = (
    ErrorCode.LEADER_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
)
assert all(row(code).retriable for code in LOST)


class _Parts(NamedTuple):
    """Which field of a request says what is to be done, one by one, and where the answer says how it went."""

    asked: str
    told: str


_PARTS: Final[dict[type, tuple[_Parts, ...]]] = {
    ProduceRequest: (_Parts("topic_data", "responses"),),
    CreateTopicsRequest: (_Parts("topics", "topics"),),
    DeleteTopicsRequest: (_Parts("topics", "responses"), _Parts("topic_names", "responses")),
    CreatePartitionsRequest: (_Parts("topics", "results"),),
    DeleteGroupsRequest: (_Parts("groups_names", "results"),),
}


def codes(message: Any) -> Iterator[int]:
    """All error codes of an answer."""
    if isinstance(message, Sequence) and not isinstance(message, str | bytes | bytearray | memoryview):
        for each in message:
            yield from codes(each)
    elif isinstance(message, Message):
        for field in all_fields(type(message)):
            value = getattr(message, field.name)
            if field.name.endswith("error_code"):
                yield value
            else:
                yield from codes(value)


def lost_parts(message: Any) -> bool:
    """Whether an answer, or a part of it, says that its request, or a part of that, was lost."""
    return any(code in LOST for code in codes(message))


class Asked:
    """A request that may have to be sent again; ``message`` is what is still to be asked."""

    def __init__(self, message: Any) -> None:
        self.message = message
        self._told: list[Any] | None = None
        self._open: list[int] = []
        self._parts = next((each for each in _PARTS.get(type(message), ()) if getattr(message, each.asked)), None)

    def take(self, answer: Any) -> Any:
        """The whole answer as far as it is known now; what is lost of it is asked for next."""
        if answer is None or self._parts is None:
            self._go_on(answer)
            return answer
        told = list(getattr(answer, self._parts.told))
        if self._told is None:
            self._told, self._open = told, list(range(len(told)))
        for place, each in zip(self._open, told, strict=True):
            self._told[place] = each
        asked = list(getattr(self.message, self._parts.asked))
        left = [row for row, each in enumerate(told) if lost_parts(each)]
        if left:
            self._open = [self._open[row] for row in left]
            self.message = replace(self.message, **{self._parts.asked: [asked[row] for row in left]})
        return replace(answer, **{self._parts.told: self._told})

    def _go_on(self, answer: Any) -> None:
        """A session of fetches counts its requests."""
        request = self.message
        if isinstance(request, FetchRequest) and request.session_epoch > 0 and answer.session_id:
            self.message = replace(request, session_epoch=request.session_epoch + 1)
