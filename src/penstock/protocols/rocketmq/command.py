"""RemotingCommand: what one frame says. A header in one of two forms, JSON or compact, and a body.

Both forms are read, whatever was sent: servers answer in the form of the request, or in JSON whatever the request was.
Every length is checked against what is left, and what a header may take is bounded before it is looked at. Source:
Apache RocketMQ 4.9 and 5.x, ``RemotingCommand``, ``RemotingSerializable`` and ``RocketMQSerializable``. What must not
live here: framing's state, which fields a code has (``messages``), what codes mean (``methods``, ``error_codes``).
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from penstock.errors import ProtocolViolation, UsageError
from penstock.protocols.rocketmq import lenient_json as lenient
from penstock.protocols.rocketmq.usual import USUAL, Written
from penstock.seams.framing import Buffer, Buffers

__all__ = [
    "LANGUAGES",
    "MAX_FRAME_BYTES",
    "MAX_HEADER_BYTES",
    "ONE_WAY",
    "RESPONSE",
    "VERSION",
    "Framed",
    "RemotingCommand",
    "UnreadableHeader",
    "code_of",
    "decode",
    "encode",
    "field_of",
    "framed",
]

VERSION: Final = 409
"""What we say we are: 4.9.8, the last version whose behaviour is the same in servers of 4.x and 5.x."""

RESPONSE: Final = 1
ONE_WAY: Final = 2

MAX_FRAME_BYTES: Final = 16_777_216
"""What every server and client takes (``com.rocketmq.remoting.frameMaxLength``), the first four bytes not counted."""

MAX_HEADER_BYTES: Final = 4 << 20
"""The longest header that anybody needs is an answer to a full batch: an id of 32 letters a message."""

LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
"""Some clients write the place in this row instead of the name."""

_LANGUAGE_NUMBER: Final = {name: number for number, name in enumerate(LANGUAGES)}
_OTHER: Final = _LANGUAGE_NUMBER["OTHER"]
_WORD: Final = struct.Struct(">II")
_FIXED: Final = struct.Struct(">hBhiii")
_BEFORE_NUMBER: Final = struct.Struct(">hBh")
_AFTER_NUMBER: Final = struct.Struct(">ii")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_NO_FIELDS: Final = "{}"
_ZERO, _COMMA = b"0,"
_LONGEST_NUMBER: Final = len("-2147483648")
_MOST_ODD: Final = 32 << 10
"""Letters of a header that is not standard JSON: so many are read in some ten milliseconds, where they arrived."""
_WITHOUT_FIELDS: Final = 4 << 10
"""Code, number and flag of a header that is too long are looked for in so many bytes at each end of it."""
_FIELDS_BEGIN: Final = re.compile(rb"""(["'])extFields\1\s*:""")
_OPAQUE: Final = re.compile(rb"""(["'])opaque\1\s*:""")
_JSON: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), check_circular=False).encode


class RemotingCommand(NamedTuple):
    """``code`` is a request's, or an answer's; ``fields`` are its custom header ("extFields"), all text.

    ``opaque`` says which answer belongs to which request, ``flag`` has the bits `RESPONSE` and `ONE_WAY`, ``remark`` is
    an answer's text (without meaning where the code is 0). ``compact`` is the form of the header.
    """

    code: int
    opaque: int = 0
    flag: int = 0
    fields: Mapping[str, str] = MappingProxyType({})
    body: Buffer = b""
    remark: str | None = None
    language: str = "PYTHON"
    version: int = VERSION
    compact: bool = False

    @property
    def is_answer(self) -> bool:
        """Whether this answers a request of the other side; if not, it is a request by whoever sent it."""
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether nobody waits for an answer."""
        return bool(self.flag & ONE_WAY)


class UnreadableHeader(ProtocolViolation):
    """A header whose code, number and flag can be read, while the rest of it cannot: its request can be refused.

    ``command`` has what could be read; ``too_long``: that is what is wrong with the rest.
    """

    def __init__(self, message: str, command: RemotingCommand, *, too_long: bool = False) -> None:
        super().__init__(message)
        self.command = command
        self.too_long = too_long


def field_of(command: RemotingCommand, name: str) -> str | None:
    """One ext field, if it is there; the others are not read for it where that can be helped."""
    fields = command.fields
    return fields.said(name) if isinstance(fields, Written) else fields.get(name)


def encode(command: RemotingCommand) -> Buffers:
    """Return the whole frame: its head, and the body as it is.

    A code that does not fit the compact form makes it JSON. Raises UsageError for more than a frame can hold.
    """
    return framed(command)(command.opaque)


class Framed:
    """Writes a frame around any number; ``command`` is what it says, for whoever has to say it in another way."""

    __slots__ = ("_after", "_before", "_compact", "command")

    def __init__(self, command: RemotingCommand, before: bytes, after: bytes, compact: bool) -> None:
        self.command = command
        self._before = before
        self._after = after
        self._compact = compact

    def __call__(self, number: int) -> Buffers:
        said = _INT32.pack(number) if self._compact else b"%d" % number
        before, after, body = self._before, self._after, self.command.body
        size = len(before) + len(said) + len(after)
        head = _WORD.pack(4 + size + len(body), self._compact << 24 | size) + before + said + after
        return [head, body] if len(body) else [head]


def framed(command: RemotingCommand) -> Framed:
    """Return what writes the frame around any number: for requests, whose number a connection chooses.

    Everything else is written here and now. Raises UsageError as `encode`.
    """
    compact = command.compact and -0x8000 <= command.code < 0x8000
    before, after = _compact(command) if compact else _json(command)
    body = command.body
    rest = len(before) + len(after)
    if rest + _LONGEST_NUMBER > MAX_HEADER_BYTES or 4 + rest + _LONGEST_NUMBER + len(body) > MAX_FRAME_BYTES:
        raise UsageError(
            f"a frame with {rest} bytes of header and {len(body)} of body; "
            f"{MAX_HEADER_BYTES} and {MAX_FRAME_BYTES} together are allowed"
        )
    return Framed(command, before, after, compact)


def code_of(written: Buffers) -> int:
    """The code of a frame that was written here."""
    head = written[0]
    if head[4]:
        return int.from_bytes(head[8:10], "big", signed=True)
    if head[16] == _ZERO and head[17] == _COMMA:
        return 0
    return int(bytes(head[16:28]).partition(b",")[0])


def decode(frame: memoryview, *, max_header_bytes: int = MAX_HEADER_BYTES) -> RemotingCommand:
    """Read a frame without its first four bytes; ``body`` is a view into it.

    Raises ProtocolViolation, and UnreadableHeader where enough of the header can be read to answer the request.
    """
    if len(frame) < 4:
        raise ProtocolViolation(f"a frame of {len(frame)} bytes; at least 4 are needed")
    kind, size = frame[0], int.from_bytes(frame[1:4], "big")
    if size > len(frame) - 4:
        raise ProtocolViolation(f"a header of {size} bytes in a frame of {len(frame)}")
    if kind > 1:
        raise ProtocolViolation(f"a header of type {kind}; there are 0 (JSON) and 1 (compact)")
    header, body = frame[4 : 4 + size], frame[4 + size :]
    long = size > max_header_bytes
    try:
        if long:
            raise ProtocolViolation(f"a header of {size} bytes; at most {max_header_bytes} are allowed")
        return _of_compact(bytes(header), body) if kind else _of_json(bytes(header), body)
    except ProtocolViolation as error:
        try:
            known = _without_fields(header, kind)
        except ProtocolViolation:
            raise error from None
        raise UnreadableHeader(error.message, known, too_long=long) from error


def _without_fields(header: memoryview, kind: int) -> RemotingCommand:
    """Read a header but for its ext fields, which alone may be long, in time that does not grow with them.

    Everything else stands before or behind them. Raises ProtocolViolation.
    """
    if kind:
        if len(header) < _FIXED.size:
            raise ProtocolViolation(f"a compact header of {len(header)} bytes; at least {_FIXED.size + 4} are needed")
        code, language, version, opaque, flag, _ = _FIXED.unpack_from(header)
        return RemotingCommand(code, opaque, flag, {}, b"", None, _language_of(language), version, True)
    begin = _FIELDS_BEGIN.search(header[:_WITHOUT_FIELDS])
    rest_begin = max(len(header) - _WITHOUT_FIELDS, 0)
    rest = bytes(header[rest_begin:]).rstrip()
    end = rest.rfind(b"}", 0, -1) + 1  # the last one is the header's own
    found = b"" if begin is None or rest_begin + end < begin.end() else header[: begin.end()].tobytes()
    found += b"null" + rest[end:]
    if not end or not _OPAQUE.search(found):
        raise ProtocolViolation(f"a header of {len(header)} bytes cannot be read")
    return _of_json(found, memoryview(b""))


def _json(command: RemotingCommand) -> tuple[bytes, bytes]:
    """Return what stands before and after the number, as Java writes it.

    Names are in alphabetical order; nothing is written where there is nothing to say.
    """
    said = command.fields
    if isinstance(said, Written):
        fields = f'"extFields":{said.text},'
    else:
        fields = f'"extFields":{_JSON(dict(said))},' if said else ""
    remark = "" if command.remark is None else f',"remark":{_JSON(command.remark)}'
    language = f'"{command.language}"' if command.language in _LANGUAGE_NUMBER else _JSON(command.language)
    before = f'{{"code":{command.code},{fields}"flag":{command.flag},"language":{language},"opaque":'
    after = f'{remark},"serializeTypeCurrentRPC":"JSON","version":{command.version}}}'
    return _utf8(before, "a header"), _utf8(after, "a remark")


def _of_json(header: bytes, body: memoryview) -> RemotingCommand:
    try:
        text = header.decode()
    except UnicodeDecodeError as error:
        raise ProtocolViolation(f"a header of {len(header)} bytes is not UTF-8") from error
    usual = USUAL(text)
    if usual is not None:
        return _of_usual(usual, body)
    said = lenient.parse(text, most_odd=_MOST_ODD)
    if not isinstance(said, dict):
        raise ProtocolViolation("a header is JSON, but no object")
    return RemotingCommand(
        _number(said, "code"),
        _number(said, "opaque"),
        _number(said, "flag"),
        _texts(said.get("extFields")),
        body,
        lenient.text(said.get("remark")),
        _language(said.get("language")),
        _number(said, "version"),
    )


def _of_usual(usual: re.Match[str], body: memoryview) -> RemotingCommand:
    code, fields, flag, language, opaque, remark, version = usual.groups()
    return RemotingCommand(
        int(code),
        int(opaque),
        int(flag),
        Written(fields) if fields and fields != _NO_FIELDS else {},
        body,
        None if remark is None else json.loads(remark),
        language,
        int(version),
    )


def _number(said: Mapping[str, Any], name: str) -> int:
    value = said.get(name, 0)
    if type(value) is not int:
        value = lenient.number(value, 32, f"a header's {name}") or 0
    if not -0x80000000 <= value < 0x80000000:
        raise ProtocolViolation(f"a header's {name} is no number of 32 bits")
    return value


def _texts(said: Any) -> Mapping[str, str]:
    """Return ext fields. Everybody writes text; other values are taken as the text they stand for."""
    if not said:
        return {}
    if not isinstance(said, dict):
        raise ProtocolViolation("a header's extFields are no object")
    if {str}.issuperset(map(type, said.values())):
        return said
    texts = ((name, lenient.text(value)) for name, value in said.items())
    return {name: text for name, text in texts if text is not None}


def _language(said: Any) -> str:
    """Return a name, also of those that only newer clients have."""
    if type(said) is str and said in _LANGUAGE_NUMBER:
        return said
    known = lenient.name(said, LANGUAGES, "a header's language")
    return known or (said if isinstance(said, str) and said else "OTHER")


def _compact(command: RemotingCommand) -> tuple[bytes, bytes]:
    """Return what stands before and after the number."""
    language = _LANGUAGE_NUMBER.get(command.language, _OTHER)
    remark = _utf8(command.remark or "", "a remark")
    entries = bytearray()
    for name, value in command.fields.items():
        key, text = _utf8(name, "an ext field's name"), _utf8(value, "an ext field")
        if len(key) > 0x7FFF:
            raise UsageError(f"the name of an ext field has {len(key)} bytes; {0x7FFF} are allowed")
        entries += _INT16.pack(len(key)) + key + _INT32.pack(len(text)) + text
    before = _BEFORE_NUMBER.pack(command.code, language, min(command.version, 0x7FFF))
    after = _AFTER_NUMBER.pack(command.flag, len(remark)) + remark + _INT32.pack(len(entries)) + entries
    return before, after


def _utf8(text: str, what: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError:
        raise UsageError(f"{what} has a lone surrogate, which no bytes stand for") from None


def _of_compact(header: bytes, body: memoryview) -> RemotingCommand:
    if len(header) < _FIXED.size:
        raise ProtocolViolation(f"a compact header of {len(header)} bytes; at least {_FIXED.size + 4} are needed")
    code, language, version, opaque, flag, length = _FIXED.unpack_from(header)
    reader = _CompactText(header, _FIXED.size)
    remark = reader.text(length, "remark") if length else None
    fields = reader.fields()
    return RemotingCommand(code, opaque, flag, fields, body, remark, _language_of(language), version, True)


def _language_of(number: int) -> str:
    return LANGUAGES[number] if number < len(LANGUAGES) else "OTHER"


class _CompactText:
    """The texts of a compact header, one after the other."""

    def __init__(self, header: bytes, at: int) -> None:
        self._header = header
        self._at = at

    def fields(self) -> Mapping[str, str]:
        size = self._length(_INT32, "ext fields")
        if not 0 <= size <= len(self._header) - self._at:
            raise ProtocolViolation(f"ext fields of {size} bytes where {len(self._header) - self._at} are left")
        end, found = self._at + size, {}
        while self._at < end:
            name = self.text(self._length(_INT16, "name"), "name")
            found[name] = self.text(self._length(_INT32, "value"), f"ext field {name[:100]!r}")
        if self._at > end:
            raise ProtocolViolation("an ext field goes beyond the ext fields")
        return found

    def text(self, length: int, what: str) -> str:
        begin = self._at
        if not 0 <= length <= len(self._header) - begin:
            raise ProtocolViolation(f"{what} of {length} bytes where {len(self._header) - begin} are left")
        self._at += length
        try:
            return self._header[begin : self._at].decode()
        except UnicodeDecodeError as error:
            raise ProtocolViolation(f"{what} is not UTF-8") from error

    def _length(self, number: struct.Struct, what: str) -> int:
        if len(self._header) - self._at < number.size:
            raise ProtocolViolation(f"a header ends before the length of its {what}")
        (length,) = number.unpack_from(self._header, self._at)
        self._at += number.size
        return int(length)
