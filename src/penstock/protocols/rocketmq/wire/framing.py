"""Frames and the commands in them: a 4-byte size, then one `RemotingCommand`, whose header is JSON or compact."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from json.scanner import make_scanner
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from penstock._dataclasses import dataclass
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
    "unheard",
]

_TEXT: Final = r'"[^"\\\x00-\x1f]*+(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4})[^"\\\x00-\x1f]*+)*+"'
_PAIR: Final = f"{_TEXT}:{_TEXT}"
_NUMBER: Final = r"(-?(?:0|[1-9][0-9]{0,8}))"
"""Nine digits: always within 32 bits. More are left to who checks."""

USUAL: Final = re.compile(
    rf'\{{"code":{_NUMBER},(?:"extFields":(\{{(?:{_PAIR}(?:,{_PAIR})*+)?\}}),)?"flag":{_NUMBER},'
    rf'"language":"([A-Z_]{{1,16}})","opaque":{_NUMBER},(?:"remark":({_TEXT}),)?'
    rf'"serializeTypeCurrentRPC":"JSON","version":{_NUMBER}\}}'
).fullmatch
"""Groups: code, ext fields, flag, language, opaque, remark, version. Nothing in it is tried twice."""


_SCAN: Final = make_scanner(json.JSONDecoder())  # type: ignore[arg-type]  # its stub takes itself
"""Of text that is known to be JSON: half of what `json.loads` does is asking."""


class Written(Mapping[str, str]):
    """Ext fields as they stand in a header; ``text`` is the JSON object that `USUAL` has recognised."""

    __slots__ = ("_read", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._read: dict[str, str] | None = None

    def said(self, name: str) -> str | None:
        """A field whose name and value need no escapes, without reading the others; None where that is not so."""
        if self._read is not None or "\\" in name:
            return self._fields.get(name)
        # A quote behind a name that is no escape's ends it, so this stands nowhere but before the field's value; of
        # several the last one counts, as for all readers of JSON here.
        before, found, rest = self.text.rpartition(f'"{name}":"')
        value = rest.partition('"')[0]
        return value if found and before[-1] in "{," and "\\" not in value else self._fields.get(name)

    def get(self, name: str, default: Any = None) -> Any:
        return self._fields.get(name, default)

    def read(self) -> dict[str, str]:
        """All of them; for who asks for several."""
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


# RemotingCommand: what one frame says. A header in one of two forms, JSON or compact, and a body.
#
# Both forms are read, whatever was sent: servers answer in the form of the request, or in JSON whatever the request
# was. Every length is checked against what is left, and what a header may take is bounded before it is looked at.
# Source: Apache RocketMQ 4.9 and 5.x, ``RemotingCommand``, ``RemotingSerializable`` and ``RocketMQSerializable``.
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


# RocketMQ's frames: a 4-byte size, then that many bytes, which are one `RemotingCommand`.
#
# Both sides ask and answer on one connection, with numbers of their own that may be equal: the flag in the header alone
# tells an answer from a request. So the header is read here, once; a frame carries the command along. Source: Apache
# RocketMQ 4.9 and 5.x, ``NettyDecoder``.
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


# A connection to a name server, a broker or a proxy: nothing is said before the first request; servers may ask, too.
#
# What a server asks for (39, 40, 220, 221, 307, 309, 326) is the business of whoever made the dialect.
Asked = Callable[[Connection, RemotingCommand], RemotingCommand | None]
"""Takes a server's request; returns its answer (its number is filled in), or None: then nothing is written."""


def unheard(connection: Connection, asked: RemotingCommand) -> None:
    """Take no notice of what servers ask, for those who are no member of anything."""
    del connection, asked


class RocketDialect:
    """``penstock.interfaces.channel.Dialect``: greeting finds nothing out, ``asked`` hears what servers ask for."""

    def __init__(self, asked: Asked = unheard) -> None:
        self._asked = asked

    def framing(self) -> RocketFraming:
        """A fresh receiving side."""
        return RocketFraming(answers=True)

    async def greet(self, connection: Connection) -> None:
        """No first words."""
        del connection

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """Have the request heard; write its answer in its form, unless nobody waits for one."""
        request = command_of(frame)
        answer = self._asked(connection, request)
        if answer is None or request.is_one_way:
            return None
        return encode(
            answer._replace(opaque=request.opaque, flag=(answer.flag | RESPONSE) & ~ONE_WAY, compact=request.compact)
        )
