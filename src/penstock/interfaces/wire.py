"""Cursors that read and write bytes and check every step; how codes in answers become errors, and errors codes."""

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

# A checked cursor over received bytes and its writing twin; big-endian, as all three protocols are.
#
# Knows primitives only: no message, no framing. Reading past the end and a length that lies are ProtocolViolation;
# nothing is allocated for a length before it was compared with what is left.
_ANY = 1 << 62
INLINE = 2_048
"""Payloads up to this many bytes are copied beside their neighbours; larger ones travel as buffers of their own."""


MOST_ELEMENTS = 1 << 20
"""Elements (structs, texts) that one message may hold in all its sequences together.

An element of two bytes becomes an object of a hundred: without this, a frame of 100 MB could ask for gigabytes.
"""


def _replacement(error: UnicodeError) -> tuple[str, int]:
    """Java replaces an encoded surrogate (ED A0 80 to ED BF BF), also one that is cut off, by one character; Python by
    one for each byte. Source: Java 17, ``String(byte[], UTF_8)``."""
    assert isinstance(error, UnicodeDecodeError)
    surrogate = error.object[error.start : error.start + 3]
    if surrogate[:1] != b"\xed" or not 0xA0 <= int.from_bytes(surrogate[1:2], "big") <= 0xBF:
        return "\ufffd", error.end
    return "\ufffd", error.start + (3 if 0x80 <= int.from_bytes(surrogate[2:], "big") <= 0xBF else 2)


AS_JAVA: Final = "penstock.java"
"""How `java_text` decodes what is not UTF-8, by the name that ``bytes.decode`` takes."""
codecs.register_error(AS_JAVA, _replacement)


def java_text(data: Buffer) -> str:
    """Return bytes of UTF-8 as text; U+FFFD stands for what is not UTF-8, in the same places as in Java."""
    return str(data, "utf-8", AS_JAVA)


class TooManyElements(ProtocolViolation):
    """A message has more elements than its reader takes. It was noticed before they were built."""


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
        """Take no more than ``elements`` from here on, and no more than as many plain numbers."""
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
        """Neighbours of fixed size in one step."""
        at = self.at
        try:
            values = layout.unpack_from(self.data, at)
        except struct.error:
            self.fail(f"{layout.size} bytes wanted, {len(self.data) - at} left")
        self.at = at + layout.size
        return values

    def left(self) -> int:
        """Bytes not read yet."""
        return len(self.data) - self.at

    def take(self, count: int) -> memoryview:
        """The next ``count`` bytes as a view. Raises ProtocolViolation when fewer are left or count is negative."""
        at = self.at
        if count < 0 or count > len(self.data) - at:
            self.fail(f"a length of {count} with {len(self.data) - at} bytes left")
        self.at = at + count
        return self.data[at : at + count]

    def elements(self, count: int, least: int, what: str) -> None:
        """Make sure, before they are built, that ``count`` elements of ``least`` or more bytes each may follow."""
        if count * least > len(self.data) - self.at:
            self.fail(f"{what} has {count} elements with {self.left()} bytes left")
        self.room -= count
        if self.room < 0:
            self._too_many(what)

    def plain_numbers(self, count: int, size: int, what: str) -> None:
        """The same for ``count`` numbers of ``size`` bytes each."""
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
        """Return ``count`` bytes as `java_text`."""
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
            if byte < 128:  # nearly all of them
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
    """Collects bytes; large buffers are kept as they are, so that ``parts()`` costs no copy of them."""

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
        """Bytes as they are."""
        if len(data) <= INLINE:
            self.tail += data
            return
        self._parts.append(self.tail)
        self._parts.append(data)
        self.tail = bytearray()

    def apart(self, piece: Buffer | Stretch) -> None:
        """Bytes that are not even looked at; see `pieces`."""
        self._parts.append(self.tail)
        self._parts.append(piece)
        self.tail = bytearray()

    def pieces(self) -> list[Buffer | Stretch]:
        """Everything written, in order."""
        return [part for part in (*self._parts, self.tail) if len(part)]

    def parts(self) -> list[Buffer]:
        """Everything written, in order, where nothing was put apart."""
        return cast(list[Buffer], self.pieces())


# An answer's error code as one of our errors: how every protocol's table of codes is turned into what is raised. The
# tables are the protocols' own.
class CodedRow(Protocol):
    """One code of a table: its number and name, what a person can do, and whether trying again can help."""

    @property
    def code(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def advice(self) -> str: ...
    @property
    def retriable(self) -> bool: ...


class Where(TypedDict, total=False):
    """What an answer was about, as far as it is known; ``node`` is who answered."""

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
    """Return the error for ``row``; ``said`` is the server's own text, ``doing`` what it was asked."""
    text = f"{doing}: " if doing else ""
    text += f"{row.name} ({row.code})" + (f": {said}" if said else "")
    hint = row.advice[:1].upper() + row.advice[1:]
    return raised(text, code=row.code, name=row.name, kind=kind, retriable=row.retriable, hint=hint, **where)


# Which code an error becomes in an answer: the rows of a front's table, and the refusal that carries a code. The tables
# are the fronts' own.
Code = TypeVar("Code")


class CodedRefusal(PenstockError):
    """A request that is not served: answered with ``code`` and the message."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def code_for(error: PenstockError, rows: Iterable[tuple[type[PenstockError], Code]], otherwise: Code) -> Code:
    """Return the code of the first row whose class ``error`` is one of."""
    return next((code for kind, code in rows if isinstance(error, kind)), otherwise)
