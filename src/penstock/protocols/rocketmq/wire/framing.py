"""Frames (a 4-byte size and a body) and the `RemotingCommand` in each, whose header is JSON or compact.

`encode` and `decode` convert a command, `framed` prepares one for any request number. `RocketFraming` cuts frames out
of a stream; `RocketDialect` is a client's connection.
"""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from json.scanner import make_scanner
from types import MappingProxyType
from typing import Any, Final, NamedTuple

import msgspec

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.channel import Connection
from penstock.interfaces.framing import HTTP_2, Buffer, Buffers, Frame, SizedBodies, not_ours, spoken
from penstock.protocols.rocketmq.wire import lenient_json as lenient

__all__ = [
    "LANGUAGES",
    "MAX_FRAME_BYTES",
    "MAX_HEADER_BYTES",
    "MAX_REQUEST_HEADER_BYTES",
    "ONE_WAY",
    "RESPONSE",
    "USUAL",
    "VERSION",
    "Asked",
    "CommandFrame",
    "Framed",
    "RemotingCommand",
    "RocketDialect",
    "RocketFraming",
    "UnreadableHeader",
    "Written",
    "code_of",
    "command_of",
    "decode",
    "encode",
    "field_of",
    "framed",
    "plain_fields",
    "unheard",
    "whole",
]

_TEXT: Final = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_PAIR: Final = f"{_TEXT}:{_TEXT}"
_NUMBER: Final = r"(-?(?:0|[1-9][0-9]{0,8}))"
"""Up to nine digits, which always fit 32 bits. Longer numbers are left to the general parser, which checks them."""

USUAL: Final = re.compile(
    rf'\{{"code":{_NUMBER},(?:"extFields":(\{{(?:{_PAIR}(?:,{_PAIR})*+)?\}}),)?"flag":{_NUMBER},'
    rf'"language":"([A-Z_]{{1,16}})","opaque":{_NUMBER},(?:"remark":({_TEXT}),)?'
    rf'"serializeTypeCurrentRPC":"JSON","version":{_NUMBER}\}}'
).fullmatch
"""The usual JSON header. Groups: code, ext fields, flag, language, opaque, remark, version. It never backtracks."""


_SCAN: Final = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]  # its stub takes itself
"""Reads text that is known to be valid JSON: `json.loads` spends half of its time on other questions."""


class Written(Mapping[str, str]):
    """Ext fields that are parsed when needed; ``text`` is their JSON object, which `USUAL` has matched."""

    __slots__ = ("_read", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._read: dict[str, str] | None = None

    def said(self, name: str) -> str | None:
        """A field, without parsing the others if its name and value have no escapes; None if there is none."""
        if self._read is not None or "\\" in name:
            return self._fields.get(name)
        # A quote after a name without a final escape ends the name, so this text occurs only in front of the field's
        # value. The last of several counts, as in all JSON parsers here.
        before, found, rest = self.text.rpartition(f'"{name}":"')
        value = rest.partition('"')[0]
        return value if found and before[-1] in "{," and "\\" not in value else self._fields.get(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self._fields.get(name, default)

    def read(self) -> dict[str, str]:
        """All fields, for callers that need several."""
        if self._read is None:
            self._read, _ = _SCAN(self.text, 0)
        return self._read

    @property
    def _fields(self) -> dict[str, str]:
        return self.read()

    def __getitem__(self, name: str) -> str:
        return self._fields[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._fields)

    def __len__(self) -> int:
        return len(self._fields)

    def __contains__(self, name: object) -> bool:
        return name in self._fields

    def __repr__(self) -> str:
        return repr(self._fields)


# RemotingCommand: the content of a frame, a header (JSON or compact) and a body.
#
# Both header forms are accepted everywhere: servers answer in the form of the request, or always in JSON. Every length
# is checked against the remaining bytes, and the header's size before it is parsed. Source: Apache RocketMQ 4.9 and
# 5.x, ``RemotingCommand``, ``RemotingSerializable`` and ``RocketMQSerializable``.
VERSION: Final = 409
"""The version that penstock reports: 4.9.8, the last one that servers of 4.x and 5.x treat alike."""

RESPONSE: Final = 1
ONE_WAY: Final = 2

MAX_FRAME_BYTES: Final = 16_777_216
"""The limit of all servers and clients (``com.rocketmq.remoting.frameMaxLength``), without the first four bytes."""

MAX_HEADER_BYTES: Final = 4 << 20
"""Enough for the longest real header, the response to a full batch: an id of 32 characters per message."""

LANGUAGES: Final = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST",
    "NODE_JS",
)  # fmt: skip
"""Some clients send the position in this list instead of the name."""

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
"""The most characters of a non-standard JSON header; this many take about ten milliseconds on the event loop."""
_WITHOUT_FIELDS: Final = 4 << 10
"""Code, number and flag of a header that is too long are searched for in this many bytes at each of its ends."""
_FIELDS_BEGIN: Final = re.compile(rb"""(["'])extFields\1\s*:""")
_OPAQUE: Final = re.compile(rb"""(["'])opaque\1\s*:""")
_JSON: Final = msgspec.json.Encoder().encode
_NO_BYTES: Final = "has a lone surrogate, which no bytes stand for"


class RemotingCommand(NamedTuple):
    """``code`` is a request's code, or a response's; ``fields`` are the custom header ("extFields"), all text.

    ``opaque`` is the request number, equal in request and response. ``flag`` has the bits `RESPONSE` and `ONE_WAY`.
    ``remark`` is a response's text, without meaning if the code is 0. ``compact`` is the form of the header.
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
        """Whether this is a response to a request of the other side; otherwise it is a request of the sender."""
        return bool(self.flag & RESPONSE)

    @property
    def is_one_way(self) -> bool:
        """Whether the sender wants no response."""
        return bool(self.flag & ONE_WAY)


class UnreadableHeader(ProtocolViolation):
    """The code, number and flag of a header are readable, the rest is not, so its request can still be refused.

    ``command`` has the readable part; ``too_long``: the header exceeds its size limit.
    """

    def __init__(self, message: str, command: RemotingCommand, *, too_long: bool = False) -> None:
        super().__init__(message)
        self.command = command
        self.too_long = too_long


def field_of(command: RemotingCommand, name: str) -> str | None:
    """One ext field; None if it is missing. The others are not parsed if that can be avoided."""
    fields = command.fields
    return fields.said(name) if isinstance(fields, Written) else fields.get(name)


def plain_fields(command: RemotingCommand) -> Mapping[str, str]:
    """All ext fields, parsed, for a reader that needs most of them."""
    fields = command.fields
    return fields.read() if isinstance(fields, Written) else fields


def encode(command: RemotingCommand) -> Buffers:
    """Return the whole frame: its head, and the body without a copy.

    A code that does not fit the compact form makes the header JSON. Raises UsageError if it exceeds a frame's limits.
    """
    compact = command.compact and -0x8000 <= command.code < 0x8000
    before, after = _parts(command, compact)
    return _frame(before, after, command.body, compact, command.opaque)


class Framed:
    """Writes a frame with a number that is given later; ``command`` is its content, for callers that change it."""

    __slots__ = ("_after", "_before", "_compact", "command")

    def __init__(self, command: RemotingCommand) -> None:
        self.command = command
        self._compact = command.compact and -0x8000 <= command.code < 0x8000
        self._before, self._after = _parts(command, self._compact)

    def __call__(self, number: int) -> Buffers:
        return _frame(self._before, self._after, self.command.body, self._compact, number)


def framed(command: RemotingCommand) -> Framed:
    """Return a function that writes the frame with any number, because a connection chooses the numbers of requests.

    Everything but the number is encoded right away. Raises UsageError as `encode`.
    """
    return Framed(command)


def _parts(command: RemotingCommand, compact: bool) -> tuple[bytes, bytes]:
    """Return what comes before and after the number. Raises UsageError."""
    before, after = _compact(command) if compact else _json(command)
    rest, body = len(before) + len(after), len(command.body)
    if rest + _LONGEST_NUMBER > MAX_HEADER_BYTES or 4 + rest + _LONGEST_NUMBER + body > MAX_FRAME_BYTES:
        raise UsageError(
            f"a frame with {rest} bytes of header and {body} of body; "
            f"{MAX_HEADER_BYTES} and {MAX_FRAME_BYTES} together are allowed"
        )
    return before, after


def _frame(before: bytes, after: bytes, body: Buffer, compact: bool, number: int) -> Buffers:
    said = _INT32.pack(number) if compact else b"%d" % number
    size = len(before) + len(said) + len(after)
    head = _WORD.pack(4 + size + len(body), compact << 24 | size) + before + said + after
    return [head, body] if len(body) else [head]


def code_of(written: Buffers) -> int:
    """The code of a frame that this module encoded."""
    head = written[0]
    if head[4]:
        return int.from_bytes(head[8:10], "big", signed=True)
    if head[16] == _ZERO and head[17] == _COMMA:
        return 0
    return int(bytes(head[16:28]).partition(b",")[0])


def decode(frame: memoryview, *, max_header_bytes: int = MAX_HEADER_BYTES) -> RemotingCommand:
    """Decode a frame without its first four bytes; ``body`` is a view into it.

    Raises ProtocolViolation; UnreadableHeader if enough of the header is readable to answer the request.
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
    """Decode a header without its ext fields, the only part that may be long, in time that does not grow with them.

    All other parts are before or after them. Raises ProtocolViolation.
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
    """Return what comes before and after the number, in the form that Java writes.

    Names are in alphabetical order; empty fields are left out.
    """
    said = command.fields
    try:
        if isinstance(said, Written):
            fields = b'"extFields":%b,' % said.text.encode()
        else:
            fields = b'"extFields":%b,' % _JSON(said if type(said) is dict else dict(said)) if said else b""
        remark = b"" if command.remark is None else b',"remark":%b' % _JSON(command.remark)
        language = _JSON(command.language)
    except UnicodeEncodeError:
        raise UsageError(f"a header {_NO_BYTES}") from None
    before = b'{"code":%d,%b"flag":%d,"language":%b,"opaque":' % (command.code, fields, command.flag, language)
    return before, b'%b,"serializeTypeCurrentRPC":"JSON","version":%d}' % (remark, command.version)


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
    """Return ext fields. Clients write text; other values are converted to text."""
    if not said:
        return {}
    if not isinstance(said, dict):
        raise ProtocolViolation("a header's extFields are no object")
    if {str}.issuperset(map(type, said.values())):
        return said
    texts = ((name, lenient.text(value)) for name, value in said.items())
    return {name: text for name, text in texts if text is not None}


def _language(said: Any) -> str:
    """Return the language's name, also one that only newer clients have."""
    if type(said) is str and said in _LANGUAGE_NUMBER:
        return said
    known = lenient.name(said, LANGUAGES, "a header's language")
    return known or (said if isinstance(said, str) and said else "OTHER")


def _compact(command: RemotingCommand) -> tuple[bytes, bytes]:
    """Return what comes before and after the number."""
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
        raise UsageError(f"{what} {_NO_BYTES}") from None


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
    """Reads the texts of a compact header in order."""

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


# Framing: a 4-byte size, then that many bytes, which are one `RemotingCommand`.
#
# Both sides send requests on one connection, with numbers of their own that may coincide; only the flag in the header
# tells a response from a request. So the header is decoded here, once, and the frame carries the command. Source:
# Apache RocketMQ 4.9 and 5.x, ``NettyDecoder``.
MAX_REQUEST_HEADER_BYTES = 256 << 10
"""The longest field of a request's header are properties: 32,767 bytes, of which JSON may write each as six."""

_NO_GRPC = "RocketMQ's SDKs of 5.x need a RocketMQ Proxy for gRPC; here, use clients that speak remoting"
_LEAST = 4
"""The size of the header's length field, the least that a frame has."""


class CommandFrame(Frame):
    """A frame and its command; ``body`` (without the command's header) is a view into the buffer that it came in.

    ``unreadable``: why only the command's code, number and flag could be decoded. Such a request can be refused, and
    the connection goes on with everything else that is under way.
    """

    command: RemotingCommand
    unreadable: UnreadableHeader | None = None


class RocketFraming:
    """Cuts frames. ``answers``: True for a client, whose responses may have long headers; False for a server."""

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
    from penstock.protocols import greetings  # not at the top: the registry imports this folder

    said = spoken(head, greetings())
    port = "Give the remoting port of a RocketMQ name server" if answers else ""
    return not_ours(said, "RocketMQ", port, _NO_GRPC if said == HTTP_2 else "") if said else None


def command_of(frame: Frame) -> RemotingCommand:
    """Return the command of a frame that `RocketFraming` cut. Raises ProtocolViolation."""
    return whole(frame).command


def whole(frame: Frame) -> CommandFrame:
    """Return the frame with its command. Raises ProtocolViolation if `RocketFraming` has not cut it."""
    if isinstance(frame, CommandFrame):
        return frame
    raise ProtocolViolation("a frame that no framing of ours has cut")


# A client's connection to a name server, a broker or a proxy. It has no handshake, and servers send requests, too (39,
# 40, 220, 221, 307, 309, 326), which the creator of the dialect handles.
Asked = Callable[[Connection, RemotingCommand], RemotingCommand | None]
"""Takes a server's request; returns the response without its number, or None to send none."""


def unheard(connection: Connection, asked: RemotingCommand) -> None:
    """Ignore servers' requests, for clients that are no members of a group."""
    del connection, asked


class RocketDialect:
    """The dialect of a client's connections (``penstock.interfaces.channel.Dialect``); ``asked`` serves requests."""

    def __init__(self, asked: Asked = unheard) -> None:
        self._asked = asked

    def framing(self) -> RocketFraming:
        """A new receiving side."""
        return RocketFraming(answers=True)

    async def greet(self, connection: Connection) -> None:
        """Do nothing: there is no handshake."""
        del connection

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """Serve a server's request; the response has the request's form. One-way requests get none."""
        request = command_of(frame)
        answer = self._asked(connection, request)
        if answer is None or request.is_one_way:
            return None
        return encode(
            answer._replace(opaque=request.opaque, flag=(answer.flag | RESPONSE) & ~ONE_WAY, compact=request.compact)
        )
