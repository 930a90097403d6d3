"""An answer to GET_MESSAGE in two parts: its few fields, and where its messages lie, undecoded.

The messages are most of the answer's bytes; the protobuf library would make a Python object of each of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from penstock._dataclasses import dataclass
from penstock.errors import ProtocolViolation
from penstock.protocols.tubemq.kernels import tube_kernel
from penstock.protocols.tubemq.messages import GetMessageResponseB2C
from penstock.protocols.tubemq.messages.codec import decode
from penstock.protocols.tubemq.wire_fields import delimited, field_end
from penstock.records.batch import Bytes, as_array

__all__ = ["MessageSet", "Run", "part_of", "places", "read_messages"]

_MESSAGES: Final = 0x22  # field 4, bytes
_MOST_RUNS: Final = 64
"""Messages stand together. They need not (protobuf lets fields stand anywhere), but nobody scatters them."""


@dataclass(frozen=True, slots=True)
class Run:
    """Messages that follow each other: where the first one begins, and how many there are."""

    at: int
    count: int


@dataclass(frozen=True, slots=True)
class MessageSet:
    """``answer`` has every field but the messages; ``data`` is the whole answer, in which ``runs`` are messages."""

    answer: GetMessageResponseB2C
    data: Bytes
    runs: tuple[Run, ...]

    @property
    def count(self) -> int:
        """How many messages the answer has, corrupt ones too."""
        return sum(run.count for run in self.runs)

    @property
    def size(self) -> int:
        """Bytes of the answer."""
        return len(self.data)


def read_messages(payload: memoryview) -> MessageSet:
    """Take an answer to GET_MESSAGE apart. Raises ProtocolViolation."""
    data = as_array(payload)
    kernel = tube_kernel(len(payload))
    runs: list[Run] = []
    rest = bytearray()
    at = 0
    while at < len(payload):
        if payload[at] == _MESSAGES:
            count, after = kernel.count_messages(data, at, len(payload))
            if not count or len(runs) == _MOST_RUNS:
                raise ProtocolViolation(
                    f"the message at byte {at} of an answer of {len(payload)} is cut off, or scattered"
                )
            runs.append(Run(at, int(count)))
            at = int(after)
        else:
            after = field_end(payload, at)
            rest += payload[at:after]
            at = after
    answer = decode(GetMessageResponseB2C, rest)
    if answer.messages:
        raise ProtocolViolation("an answer has messages behind a tag that is not written as others write it")
    return MessageSet(answer, data, tuple(runs))


def places(messages: MessageSet) -> list[int]:
    """Where each message begins."""
    view, found = messages.data.data, list[int]()
    for run in messages.runs:
        at = run.at
        for _ in range(run.count):
            found.append(at)
            at = delimited(view, at + 1)[1]
    return found


def part_of(messages: MessageSet, at: Sequence[int], first: int, last: int) -> MessageSet:
    """The messages from number ``first`` to before ``last``, which begin ``at`` these places."""
    runs, number = [], 0
    for run in messages.runs:
        begin, end = max(first, number), min(last, number + run.count)
        if begin < end:
            runs.append(Run(at[begin], end - begin))
        number += run.count
    return MessageSet(messages.answer, messages.data, tuple(runs))
