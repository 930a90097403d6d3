"""RocketMQ's frames: a 4-byte size, then that many bytes, which are one `RemotingCommand`.

Both sides ask and answer on one connection, with numbers of their own that may be equal: the flag in the header alone
tells an answer from a request. So the header is read here, once; a frame carries the command along.
Source: Apache RocketMQ 4.9 and 5.x, ``NettyDecoder``.
"""

from __future__ import annotations

from functools import partial

from penstock._dataclasses import dataclass
from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.command import (
    MAX_FRAME_BYTES,
    MAX_HEADER_BYTES,
    RemotingCommand,
    UnreadableHeader,
    decode,
)
from penstock.seams.framing import Frame
from penstock.wire.foreign import HTTP_2, not_ours, spoken
from penstock.wire.sized import SizedBodies

__all__ = ["MAX_REQUEST_HEADER_BYTES", "CommandFrame", "RocketFraming", "command_of"]

MAX_REQUEST_HEADER_BYTES = 256 << 10
"""Properties are the longest thing in a request's header: 32,767 bytes, each of which JSON may write in six letters."""

_NO_GRPC = "RocketMQ's SDKs of 5.x need a RocketMQ Proxy for gRPC; here, use clients that speak remoting"
_LEAST = 4
"""Bytes of the header's length, without which there is no frame."""


@dataclass(slots=True)
class CommandFrame(Frame):
    """A frame and what it says; ``body`` (without the command's header) is a view into the one buffer it came in.

    ``unreadable``: why all but the command's code, number and flag could not be read. Such a request can be refused,
    and its connection goes on, with all else that is under way there.
    """

    command: RemotingCommand
    unreadable: UnreadableHeader | None = None


class RocketFraming:
    """Cuts frames; ``answers`` True for a client, whose answers may have long headers, False for a server."""

    __slots__ = ("_answers", "_bodies", "need")

    def __init__(self, *, answers: bool, limit: int = MAX_FRAME_BYTES) -> None:
        self._answers = answers
        self._bodies = SizedBodies(
            "RocketMQ's remoting protocol", partial(_foreign, answers), least=_LEAST, limit=limit
        )
        self.need = self._bodies.need

    def feed(self, chunk: memoryview) -> CommandFrame | None:
        body = self._bodies.feed(chunk)
        if body is None:
            return None
        most = MAX_HEADER_BYTES if self._answers else MAX_REQUEST_HEADER_BYTES
        try:
            command = decode(body, max_header_bytes=most)
        except UnreadableHeader as error:
            if self._answers:
                raise
            known = error.command
            return CommandFrame(known.opaque, known.is_answer, memoryview(b""), known, error)
        return CommandFrame(command.opaque, command.is_answer, memoryview(command.body), command)


def _foreign(answers: bool, head: bytes) -> ProtocolViolation | None:
    from penstock.protocols import greetings  # not above: the registry imports this folder

    said = spoken(head, greetings())
    port = "Give the remoting port of a RocketMQ name server" if answers else ""
    return not_ours(said, "RocketMQ", port, _NO_GRPC if said == HTTP_2 else "") if said else None


def command_of(frame: Frame) -> RemotingCommand:
    """Return what a frame says that `RocketFraming` cut. Raises ProtocolViolation."""
    if isinstance(frame, CommandFrame):
        return frame.command
    raise ProtocolViolation("a frame that no framing of ours has cut")
