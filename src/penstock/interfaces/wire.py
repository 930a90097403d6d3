"""Reading and writing bytes with every step checked; and how error codes map to exceptions and back."""

from __future__ import annotations

import codecs
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn, Protocol, TypedDict, TypeVar, Unpack, cast

from penstock.errors import ErrorKind, PenstockError, ProtocolViolation, ServerError
from penstock.interfaces.framing import Buffer, Stretch

__all__ = [
    "MOST_ELEMENTS",
    "CodedRefusal",
    "CodedRow",
    "Reader",
    "TooManyElements",
    "Where",
    "Writer",
    "code_for",
    "java_text",
    "server_error",
]

# `Reader` and `Writer`: cursors for big-endian data, as all three protocols have.
#
# They know primitives only, no messages and no framing. A read past the end or an impossible length raises
# ProtocolViolation. A length is compared with the bytes that are left before anything is allocated for it.
_ANY = 1 << 62
INLINE = 2_048
"""Payloads up to this many bytes are copied into the buffer; larger ones are sent as separate buffers."""


MOST_ELEMENTS = 1 << 20
"""Elements (structs, texts) that one message may have in all its sequences together.

An element of two bytes becomes an object of a hundred. Without this limit, a frame of 100 MB could take gigabytes.
"""


def _replacement(error: UnicodeError) -> tuple[str, int]:
    """Decode as Java does, which replaces an encoded surrogate (ED A0 80 to ED BF BF), even a truncated one, by one
    character; Python replaces each byte. Source: Java 17, ``String(byte[], UTF_8)``."""
    assert isinstance(error, UnicodeDecodeError)
    surrogate = error.object[error.start : error.start + 3]
    if surrogate[:1] != b"\xed" or not 0xA0 <= int.from_bytes(surrogate[1:2], "big") <= 0xBF:
        return "\ufffd", error.end
    return "\ufffd", error.start + (3 if 0x80 <= int.from_bytes(surrogate[2:], "big") <= 0xBF else 2)


AS_JAVA: Final = "penstock.java"
"""The error handler of `java_text`, by the name that ``bytes.decode`` takes."""
codecs.register_error(AS_JAVA, _replacement)


def java_text(data: Buffer) -> str:
    """Decode UTF-8; invalid bytes become U+FFFD in the same places as in Java."""
    return str(data, "utf-8", AS_JAVA)


class TooManyElements(ProtocolViolation):
    """A message has more elements than its reader accepts. Raised before they are built."""


def _fixed(code: str) -> Callable[[Reader], int]:
    layout = struct.Struct(">" + code)
    unpack, size = layout.unpack_from, layout.size

    def read(self: Reader) -> int:
        at = self.at
        try:
            value: int = unpack(self.data, at)[0]
        except struct.error:
            self.fail(f"{size} bytes wanted, {len(self.data) - at} left")
        self.at = at + size
        return value

    return read


class Reader:
    """Reads forward through ``data`` (kept as a view, never copied)."""

    __slots__ = ("at", "data", "most", "numbers", "room")

    def __init__(self, data: Buffer, at: int = 0) -> None:
        view = memoryview(data)
        self.data = view if view.format == "B" and view.ndim == 1 else view.cast("B")
        self.at = at
        self.room = self.most = MOST_ELEMENTS
        self.numbers = _ANY

    def limit(self, elements: int) -> None:
        """Accept at most ``elements`` elements from here on, and at most as many plain numbers."""
        self.room = self.most = self.numbers = elements

    i8 = _fixed("b")
    i16 = _fixed("h")
    i32 = _fixed("i")
    i64 = _fixed("q")
    u8 = _fixed("B")
    u16 = _fixed("H")
    u32 = _fixed("I")

    def f64(self) -> float:
        value: float = struct.unpack(">d", self.take(8))[0]
        return value

    def fixed(self, layout: struct.Struct) -> tuple[Any, ...]:
        """Read adjacent fields of fixed size in one step."""
        at = self.at
        try:
            values = layout.unpack_from(self.data, at)
        except struct.error:
            self.fail(f"{layout.size} bytes wanted, {len(self.data) - at} left")
        self.at = at + layout.size
        return values

    def left(self) -> int:
        """The number of unread bytes."""
        return len(self.data) - self.at

    def take(self, count: int) -> memoryview:
        """Return the next ``count`` bytes as a view.

        Raises ProtocolViolation if fewer are left, or ``count`` is negative.
        """
        at = self.at
        if count < 0 or count > len(self.data) - at:
            self.fail(f"a length of {count} with {len(self.data) - at} bytes left")
        self.at = at + count
        return self.data[at : at + count]

    def elements(self, count: int, least: int, what: str) -> None:
        """Check that ``count`` elements of at least ``least`` bytes each can follow. Call it before building them."""
        if count * least > len(self.data) - self.at:
            self.fail(f"{what} has {count} elements with {self.left()} bytes left")
        self.room -= count
        if self.room < 0:
            self._too_many(what)

    def plain_numbers(self, count: int, size: int, what: str) -> None:
        """As `elements`, for ``count`` numbers of ``size`` bytes each."""
        if count * size > len(self.data) - self.at:
            self.fail(f"{what} has {count} elements with {self.left()} bytes left")
        self.numbers -= count
        if self.numbers < 0:
            self._too_many(what)

    def _too_many(self, what: str) -> NoReturn:
        raise TooManyElements(
            f"malformed message at byte {self.at}: {what} brings the message to more than {self.most} elements"
        )

    def text(self, count: int) -> str:
        """Decode the next ``count`` bytes as `java_text` does."""
        at = self.at
        if count < 0 or count > len(self.data) - at:
            self.fail(f"a length of {count} with {len(self.data) - at} bytes left")
        self.at = at + count
        return str(self.data[at : at + count], "utf-8", AS_JAVA)

    def uvarint(self) -> int:
        """Unsigned base-128, at most five bytes (32 bits)."""
        data, at = self.data, self.at
        try:
            byte = data[at]
            if byte < 128:  # the usual case
                self.at = at + 1
                return byte
            value = shift = 0
            while True:
                byte = data[at]
                at += 1
                value |= (byte & 127) << shift
                if byte < 128:
                    break
                shift += 7
                if shift > 28:
                    self.fail("a varint of more than five bytes")
        except IndexError:
            self.fail("a varint that does not end")
        if value > 0xFFFFFFFF:
            self.fail("a varint of more than 32 bits")
        self.at = at
        return value

    def done(self) -> None:
        """Raises ProtocolViolation unless everything was read."""
        if self.at != len(self.data):
            self.fail(f"{self.left()} bytes left over at the end of the message")

    def fail(self, what: str) -> NoReturn:
        """Raise ProtocolViolation with the position."""
        raise ProtocolViolation(f"malformed message at byte {self.at}: {what}")


class Writer:
    """Collects bytes; large buffers are kept separate, so that ``parts()`` does not copy them."""

    __slots__ = ("_parts", "tail")

    def __init__(self) -> None:
        self._parts: list[Buffer | Stretch] = []
        self.tail = bytearray()

    def i8(self, value: int) -> None:
        self.tail += value.to_bytes(1, "big", signed=True)

    def i16(self, value: int) -> None:
        self.tail += value.to_bytes(2, "big", signed=True)

    def i32(self, value: int) -> None:
        self.tail += value.to_bytes(4, "big", signed=True)

    def i64(self, value: int) -> None:
        self.tail += value.to_bytes(8, "big", signed=True)

    def u16(self, value: int) -> None:
        self.tail += value.to_bytes(2, "big")

    def u32(self, value: int) -> None:
        self.tail += value.to_bytes(4, "big")

    def f64(self, value: float) -> None:
        self.tail += struct.pack(">d", value)

    def uvarint(self, value: int) -> None:
        tail = self.tail
        while value > 127:
            tail.append(value & 127 | 128)
            value >>= 7
        tail.append(value)

    def raw(self, data: Buffer) -> None:
        """Append bytes as they are."""
        if len(data) <= INLINE:
            self.tail += data
            return
        self._parts.append(self.tail)
        self._parts.append(data)
        self.tail = bytearray()

    def apart(self, piece: Buffer | Stretch) -> None:
        """Append bytes, or a `Stretch` of a file, without looking at them; see `pieces`."""
        self._parts.append(self.tail)
        self._parts.append(piece)
        self.tail = bytearray()

    def pieces(self) -> list[Buffer | Stretch]:
        """Everything written, in order."""
        return [part for part in (*self._parts, self.tail) if len(part)]

    def parts(self) -> list[Buffer]:
        """Everything written, in order, if `apart` was given no `Stretch`."""
        return cast(list[Buffer], self.pieces())


# Error codes in answers as exceptions. Each protocol has its own table of codes.
class CodedRow(Protocol):
    """One row of a table: number, name, advice for people, and whether retrying can help."""

    @property
    def code(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def advice(self) -> str: ...
    @property
    def retriable(self) -> bool: ...


class Where(TypedDict, total=False):
    """What an answer was about, as far as known; ``node`` is the node that answered."""

    topic: str | None
    partition: int | None
    offset: int | None
    node: str | None


def server_error(
    row: CodedRow,
    kind: ErrorKind | None,
    said: str = "",
    *,
    doing: str = "",
    raised: type[ServerError] = ServerError,
    **where: Unpack[Where],
) -> ServerError:
    """Return the error for ``row``; ``said`` is the server's own text, ``doing`` the request in words."""
    text = f"{doing}: " if doing else ""
    text += f"{row.name} ({row.code})" + (f": {said}" if said else "")
    hint = row.advice[:1].upper() + row.advice[1:]
    return raised(text, code=row.code, name=row.name, kind=kind, retriable=row.retriable, hint=hint, **where)


# Exceptions as error codes in answers. Each front has its own table of rows.
Code = TypeVar("Code")


class CodedRefusal(PenstockError):
    """A request is refused; the answer has ``code`` and the message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_for(error: PenstockError, rows: Iterable[tuple[type[PenstockError], Code]], otherwise: Code) -> Code:
    """Return the code of the first row whose class ``error`` is an instance of."""
    return next((code for kind, code in rows if isinstance(error, kind)), otherwise)
