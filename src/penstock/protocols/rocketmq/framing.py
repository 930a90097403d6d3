"""RocketMQ's frames: a 4-byte size, then that many bytes, which are one `RemotingCommand`.

Both sides ask and answer on one connection, with numbers of their own that may be equal: the flag in the header alone
tells an answer from a request. So the header is read here, once; a frame carries the command along.
Source: Apache RocketMQ 4.9 and 5.x, ``NettyDecoder``.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.command import MAX_FRAME_BYTES, MAX_HEADER_BYTES, RemotingCommand, decode
from penstock.seams.framing import Frame
from penstock.wire.foreign import looks_like_tls, spoken

__all__ = ["MAX_REQUEST_HEADER_BYTES", "CommandFrame", "RocketFraming", "command_of"]

MAX_REQUEST_HEADER_BYTES = 256 << 10
"""Properties are the longest thing in a request's header: 32,767 bytes, each of which JSON may write in six letters."""

_SIZE = 4


@dataclass(frozen=True, slots=True)
class CommandFrame(Frame):
    """A frame and what it says; ``body`` (without the command's header) is a view into the one buffer it came in."""

    command: RemotingCommand


class RocketFraming:
    """Cuts frames; ``answers`` True for a client, whose answers may have long headers, False for a server."""

    __slots__ = ("_answers", "_body", "_first", "_limit")

    def __init__(self, *, answers: bool, limit: int = MAX_FRAME_BYTES) -> None:
        self._answers = answers
        self._limit = limit
        self._body = 0
        self._first = True

    def need(self) -> int:
        return self._body or _SIZE

    def feed(self, chunk: memoryview) -> CommandFrame | None:
        if not self._body:
            size = int.from_bytes(chunk, "big", signed=True)
            if not _SIZE <= size <= self._limit or (self._first and looks_like_tls(bytes(chunk))):
                raise self._foreign(bytes(chunk), size)
            self._body = size
            self._first = False
            return None
        self._body = 0
        most = MAX_HEADER_BYTES if self._answers else MAX_REQUEST_HEADER_BYTES
        command = decode(chunk, max_header_bytes=most)
        return CommandFrame(command.opaque, command.is_answer, memoryview(command.body), command)

    def _foreign(self, head: bytes, size: int) -> ProtocolViolation:
        from penstock.protocols import greetings  # not above: the registry imports this folder

        said = spoken(head, greetings()) if self._first else ""
        if not said:
            return ProtocolViolation(
                f"a frame of {size} bytes; {_SIZE} to {self._limit} are allowed",
                hint="Is the other side speaking RocketMQ's remoting protocol, without TLS?",
            )
        hint = "Say tls=true" if said == "TLS" else "Give the remoting port of a RocketMQ name server"
        message = f"the other side speaks {said}, not RocketMQ's protocol"
        return ProtocolViolation(message, hint=hint if self._answers else None)


def command_of(frame: Frame) -> RemotingCommand:
    """Return what a frame says that `RocketFraming` cut. Raises ProtocolViolation."""
    if isinstance(frame, CommandFrame):
        return frame.command
    raise ProtocolViolation("a frame that no framing of ours has cut")
