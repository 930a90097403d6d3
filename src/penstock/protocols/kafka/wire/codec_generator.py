"""Generates readers and writers of declared messages: straight-line Python, compiled once for each class and version.

A reader is a function of a `Reader`; a writer is a function of a `Writer` and a message. Adjacent fields of fixed size
are packed or unpacked in one step. Nested structs and arrays are handled inline, in the same function. Tagged fields
are rare, so each has a separate function, which is generated on first use. Every count and length is compared with the
bytes left before anything is built.

To see a generated function, call `source_of`. Tracebacks also show its lines.
Source: Kafka protocol guide, "Protocol Primitive Types"; KIP-482.
"""

from __future__ import annotations

import linecache
import struct
from collections.abc import Callable, Iterable
from typing import Any, Final, NoReturn

from penstock.errors import ProtocolViolation, UsageError
from penstock.interfaces.framing import Buffer
from penstock.interfaces.wire import AS_JAVA, INLINE, Reader, TooManyElements, Writer
from penstock.protocols.kafka.wire.declarations import (
    FIXED,
    Field,
    Wire,
    is_default,
    lacking_fields,
    least_size,
    numbers,
    plain_fields,
    runs,
    struct_of,
    tagged_fields,
)

__all__ = ["Read", "Write", "skip_tags", "source_of", "struct_reader", "struct_writer", "value_reader", "value_writer"]

Read = Callable[[Reader], Any]
Write = Callable[[Writer, Any], None]

_READ_CODES: Final = {**FIXED, "uuid": "16s"}
_LONGEST_TEXT: Final = 0x7FFF
"""The longest string in bytes. A compact string could encode more, but Kafka's own reader has this limit everywhere."""
_LONGEST_BYTES: Final = 0x7FFFFFFF
_LONGEST_UVARINT_SHIFT: Final = 28


def struct_reader(message: type, version: int, *, flexible: bool) -> Read:
    """Generate a function that reads a ``message`` at the reader's position and advances the reader."""
    made = _Reading(version, flexible=flexible)
    made.begin()
    made.struct(2, message, "found")
    return made.ended(f"{message.__name__} v{version}")


def value_reader(wire: Wire, path: str, version: int, *, flexible: bool) -> Read:
    """Generate a function that reads one value; ``path`` names the field in errors."""
    made = _Reading(version, flexible=flexible)
    made.begin()
    made.value(2, wire, "found", path)
    return made.ended(f"{path} v{version}")


def struct_writer(message: type, version: int, *, flexible: bool) -> Write:
    """Generate a function that appends an instance of ``message``."""
    made = _Writing(version, flexible=flexible)
    made.struct(1, message, "value")
    return made.ended(f"{message.__name__} v{version}")


def value_writer(wire: Wire, version: int, *, flexible: bool) -> Write:
    """Generate a function that appends one value."""
    made = _Writing(version, flexible=flexible)
    made.value(1, wire, "value")
    return made.ended(f"{wire.kind} v{version}")


def source_of(function: Callable[..., object]) -> str:
    """Return the source text of a generated function."""
    return "".join(linecache.getlines(function.__code__.co_filename))


class _Tags:
    """The tagged fields of a message, and the functions that read and write them."""

    def __init__(self, message: type, version: int) -> None:
        self._message = message
        self._version = version
        self._fields = tagged_fields(message, version)
        self._readers: dict[int, Read] = {}
        self._writers: dict[int, Write] = {}

    def read(self, reader: Reader, data: memoryview, at: int, room: int) -> tuple[dict[str, Any], int, int]:
        """Read a section of tagged fields, which begins at ``at``.

        Returns the values of the declared fields, the position after the section, and the elements that may still be
        built. Raises ProtocolViolation.
        """
        values: dict[str, Any] = {}
        end = len(data)
        count, at = _uvarint(data, at)
        if count * 2 > end - at:
            _fail(at, f"{count} tagged fields with {end - at} bytes left")
        if count > room:
            _too_many(reader, at, "a section of tagged fields")
        room -= count
        last = -1
        for _ in range(count):
            tag, at = _uvarint(data, at)
            if tag <= last:
                _fail(at, f"tagged field {tag} after {last}")
            last = tag
            size, at = _uvarint(data, at)
            stop = at + size
            if stop > end:
                _fail(at, f"a length of {size} with {end - at} bytes left")
            if (field := self._fields.get(tag)) is not None:
                inner = Reader(data[at:stop])
                inner.room, inner.numbers, inner.most = room, reader.numbers, reader.most
                values[field.name] = self._reader(tag, field)(inner)
                inner.done()
                room, reader.numbers = inner.room, inner.numbers
            at = stop
        return values, at, room

    def _reader(self, tag: int, field: Field) -> Read:
        if tag not in self._readers:
            path = f"{self._message.__name__}.{field.name}"
            self._readers[tag] = value_reader(field.wire, path, self._version, flexible=True)
        return self._readers[tag]

    def write(self, writer: Writer, value: object) -> bytearray:
        """Append the fields that are not at their defaults. Returns the writer's new tail."""
        given: list[tuple[int, list[Buffer]]] = []
        for tag, field in self._fields.items():
            one = getattr(value, field.name)
            if not is_default(one, field.default):
                if tag not in self._writers:
                    self._writers[tag] = value_writer(field.wire, self._version, flexible=True)
                inner = Writer()
                self._writers[tag](inner, one)
                given.append((tag, inner.parts()))
        writer.uvarint(len(given))
        for tag, body in given:
            writer.uvarint(tag)
            writer.uvarint(sum(map(len, body)))
            for part in body:
                writer.raw(part)
        return writer.tail


class _Function:
    """The source lines of a function under construction, and the values that they refer to by name."""

    def __init__(self, version: int, *, flexible: bool, **names: object) -> None:
        self.version = version
        self.flexible = flexible
        self._lines: list[str] = []
        self._names: dict[str, object] = names
        self._count = 0

    def line(self, depth: int, text: str) -> None:
        self._lines.append("    " * depth + text + "\n")

    def new(self, stem: str) -> str:
        """Return an unused name."""
        self._count += 1
        return f"{stem}_{self._count}"

    def constant(self, stem: str, value: object) -> str:
        """Bind ``value`` to an unused name and return the name."""
        name = self.new(stem)
        self._names[name] = value
        return name

    def compiled(self, title: str, name: str) -> Any:
        file, text = f"<Kafka {title} {name}>", "".join(self._lines)
        linecache.cache[file] = (len(text), None, self._lines, file)
        exec(compile(text, file, "exec"), self._names)
        return self._names[name]


def _layout(codes: Iterable[str]) -> struct.Struct:
    return struct.Struct(">" + "".join(codes))


class _Reading(_Function):
    """A reader under construction.

    The generated code reads ``data`` at position ``at``, up to ``end``. Its ``room`` counts the elements that may still
    be built.
    """

    def __init__(self, version: int, *, flexible: bool) -> None:
        super().__init__(
            version,
            flexible=flexible,
            java=AS_JAVA,
            null=_null,
            numbers=numbers,
            skip_tags=_skip_tags,
            struct_error=struct.error,
            too_short=_too_short,
            uvarint=_uvarint,
            wrong_count=_wrong_count,
            wrong_length=_wrong_length,
            wrong_mark=_wrong_mark,
        )

    def begin(self) -> None:
        self.line(0, "def read(reader):")
        self.line(1, "data = reader.data; at = reader.at; end = len(data); room = reader.room")
        self.line(1, "try:")

    def ended(self, title: str) -> Read:
        self.line(1, "except (struct_error, IndexError):")
        self.line(2, "too_short(at, end)")
        self.line(1, "reader.at = at; reader.room = room")
        self.line(1, "return found")
        function: Read = self.compiled(title, "read")
        return function

    def struct(self, depth: int, message: type, target: str) -> None:
        values: dict[str, str] = {}
        for run in runs(plain_fields(message, self.version), _READ_CODES):
            names = [self.new(field.name) for field in run]
            if run[0].wire.kind in _READ_CODES:
                self._fixed(depth, names, [_READ_CODES[field.wire.kind] for field in run])
            else:
                self.value(depth, run[0].wire, names[0], f"{message.__name__}.{run[0].name}")
            values.update((field.name, name) for field, name in zip(run, names, strict=True))
        made = f"{target} = {self.constant(message.__name__, message)}("
        made += ", ".join(f"{field}={name}" for field, name in values.items())
        if not self.flexible:
            self.line(depth, f"{made})")
        elif not tagged_fields(message, self.version):
            self.line(depth, "if data[at]: at, room = skip_tags(reader, data, at, room)")
            self.line(depth, "else: at += 1")
            self.line(depth, f"{made})")
        else:
            tags, given = self.constant("tags", _Tags(message, self.version)), self.new("given")
            self.line(depth, "if data[at]:")
            self.line(depth + 1, f"{given}, at, room = {tags}.read(reader, data, at, room)")
            self.line(depth + 1, f"{made}, **{given})")
            self.line(depth, "else:")
            self.line(depth + 1, "at += 1")
            self.line(depth + 1, f"{made})")

    def _fixed(self, depth: int, names: list[str], codes: list[str]) -> None:
        layout = _layout(codes)
        self.line(depth, f"{', '.join(names)}, = {self.constant('unpack', layout.unpack_from)}(data, at)")
        self.line(depth, f"at += {layout.size}")

    def value(self, depth: int, wire: Wire, target: str, path: str) -> None:
        if wire.kind in _READ_CODES:
            self._fixed(depth, [target], [_READ_CODES[wire.kind]])
        elif wire.kind == "struct":
            self._struct_or_null(depth, wire, target, path)
        else:
            self._sized(depth, wire, target, path)

    def _struct_or_null(self, depth: int, wire: Wire, target: str, path: str) -> None:
        if not wire.may_be_null(self.version):
            self.struct(depth, struct_of(wire), target)
            return
        mark = self.new("mark")
        self._fixed(depth, [mark], ["b"])
        self.line(depth, f"if {mark} == -1: {target} = None")
        self.line(depth, f"elif {mark} != 1: wrong_mark(at, {mark}, {path!r})")
        self.line(depth, "else:")
        self.struct(depth + 1, struct_of(wire), target)

    def _sized(self, depth: int, wire: Wire, target: str, path: str) -> None:
        """Read a value that begins with a length or a count."""
        size = self.new("size")
        if self.flexible:
            self.line(depth, f"{size} = data[at] - 1; at += 1")
            self.line(depth, f"if {size} > 126: {size}, at = uvarint(data, at - 1); {size} -= 1")
        else:
            self._fixed(depth, [size], ["h" if wire.kind == "str" else "i"])
        self.line(depth, f"if {size} < 0: {target} = null(at, {size}, {wire.may_be_null(self.version)}, {path!r})")
        self.line(depth, "else:")
        if wire.kind == "array":
            self._array(depth + 1, wire, target, size, path)
            return
        longest = _LONGEST_TEXT if wire.kind == "str" else _LONGEST_BYTES
        stop = self.new("stop")
        self.line(depth + 1, f"{stop} = at + {size}")
        self.line(
            depth + 1, f"if {stop} > end or {size} > {longest}: wrong_length(at, end, {size}, {longest}, {path!r})"
        )
        piece = f"data[at:{stop}]"
        self.line(depth + 1, f"{target} = " + (f"str({piece}, 'utf-8', java)" if wire.kind == "str" else piece))
        self.line(depth + 1, f"at = {stop}")

    def _array(self, depth: int, wire: Wire, target: str, count: str, path: str) -> None:
        item = wire.item
        plain = isinstance(item, Wire) and item.kind in FIXED
        if isinstance(item, Wire) and plain:
            code = FIXED[item.kind]
            least, room = struct.calcsize(">" + code), "reader.numbers"
        else:
            least, room = least_size(item or struct_of(wire), self.version, flexible=self.flexible), "room"
        self.line(
            depth,
            f"if {count} * {least} > end - at or {count} > {room}: "
            f"wrong_count(reader, at, end, {count}, {least}, {path!r})",
        )
        self.line(depth, f"{room} -= {count}")
        if plain:
            self.line(depth, f"{target} = numbers({code!r}, {count}).unpack_from(data, at)")
            self.line(depth, f"at += {count} * {least}")
            return
        built, one = self.new("items"), self.new("item")
        self.line(depth, f"{built} = []")
        self.line(depth, f"for _ in range({count}):")
        if isinstance(item, Wire):
            self.value(depth + 1, item, one, path)
        else:
            self.struct(depth + 1, struct_of(wire), one)
        self.line(depth + 1, f"{built}.append({one})")
        self.line(depth, f"{target} = tuple({built})")


class _Writing(_Function):
    """A writer under construction.

    The generated code appends small values to ``out``, the tail of ``writer``. Large values become separate pieces.
    """

    def __init__(self, version: int, *, flexible: bool) -> None:
        super().__init__(
            version,
            flexible=flexible,
            is_default=is_default,
            numbers=numbers,
            put_uvarint=_put_uvarint,
            refuse=_refuse,
            wrong_uuid=_wrong_uuid,
        )
        self.line(0, "def write(writer, value):")
        self.line(1, "out = writer.tail")

    def ended(self, title: str) -> Write:
        function: Write = self.compiled(title, "write")
        return function

    def struct(self, depth: int, message: type, value: str) -> None:
        for field in lacking_fields(message, self.version):
            default, name = self.constant("default", field.default), f"{message.__name__}.{field.name}"
            here = f"{value}.{field.name}"
            self.line(
                depth,
                f"if {here} != {default} and not is_default({here}, {default}): "
                f"refuse({name!r}, {self.version}, {here})",
            )
        for run in runs(plain_fields(message, self.version), FIXED):
            if run[0].wire.kind in FIXED:
                pack = self.constant("pack", _layout(FIXED[field.wire.kind] for field in run).pack)
                self.line(depth, f"out += {pack}({', '.join(f'{value}.{field.name}' for field in run)})")
            else:
                self.value(depth, run[0].wire, f"{value}.{run[0].name}")
        if self.flexible:
            self._tags(depth, message, value)

    def _tags(self, depth: int, message: type, value: str) -> None:
        tagged = tagged_fields(message, self.version)
        if not tagged:
            self.line(depth, "out.append(0)")
            return
        names = [(f"{value}.{field.name}", self.constant("default", field.default)) for field in tagged.values()]
        tags = self.constant("tags", _Tags(message, self.version))
        self.line(depth, f"if {' or '.join(f'{name} != {default}' for name, default in names)}:")
        self.line(depth + 1, f"out = {tags}.write(writer, {value})")
        self.line(depth, "else: out.append(0)")

    def value(self, depth: int, wire: Wire, value: str) -> None:
        if wire.kind in FIXED:
            self.line(depth, f"out += {self.constant('pack', _layout(FIXED[wire.kind]).pack)}({value})")
            return
        one = self.new("one")
        self.line(depth, f"{one} = {value}")
        if wire.kind == "uuid":
            self.line(depth, f"if len({one}) != 16: wrong_uuid({one})")
            self.line(depth, f"out += {one}")
            return
        if wire.may_be_null(self.version):
            self.line(depth, f"if {one} is None:")
            if wire.kind == "struct":
                self.line(depth + 1, "out.append(255)")
            else:
                self._length(depth + 1, wire, "-1")
            self.line(depth, "else:")
            depth += 1
            if wire.kind == "struct":
                self.line(depth, "out.append(1)")
        if wire.kind == "struct":
            self.struct(depth, struct_of(wire), one)
        elif wire.kind == "str":
            self.line(depth, f"{one} = {one}.encode()")
            self._length(depth, wire, f"len({one})")
            self.line(depth, f"out += {one}")
        elif wire.kind == "array":
            self._array(depth, wire, one)
        elif wire.kind == "records":
            self.line(depth, f"if hasattr({one}, 'read'):")
            self._length(depth + 1, wire, f"len({one})")
            self.line(depth + 1, f"writer.apart({one}); out = writer.tail")
            self.line(depth, "else:")
            self._bytes(depth + 1, wire, one)
        else:
            self._bytes(depth, wire, one)

    def _bytes(self, depth: int, wire: Wire, one: str) -> None:
        self.line(depth, f"if type({one}) is not bytes: {one} = memoryview({one}).cast('B')")
        self._length(depth, wire, f"len({one})")
        self.line(depth, f"if len({one}) <= {INLINE}: out += {one}")
        self.line(depth, f"else: writer.raw({one}); out = writer.tail")

    def _length(self, depth: int, wire: Wire, size: str) -> None:
        if not self.flexible:
            pack = self.constant("pack", _layout("h" if wire.kind == "str" else "i").pack)
            self.line(depth, f"out += {pack}({size})")
        elif size == "-1":
            self.line(depth, "out.append(0)")
        else:
            count = self.new("size")
            self.line(depth, f"{count} = {size} + 1")
            self.line(depth, f"if {count} < 128: out.append({count})")
            self.line(depth, f"else: put_uvarint(out, {count})")

    def _array(self, depth: int, wire: Wire, one: str) -> None:
        self._length(depth, wire, f"len({one})")
        item = wire.item
        if isinstance(item, Wire) and item.kind in FIXED:
            self.line(depth, f"out += numbers({FIXED[item.kind]!r}, len({one})).pack(*{one})")
            return
        each = self.new("each")
        self.line(depth, f"for {each} in {one}:")
        if isinstance(item, Wire):
            self.value(depth + 1, item, each)
        else:
            self.struct(depth + 1, struct_of(wire), each)


def skip_tags(reader: Reader) -> None:
    """Skip a section of tagged fields."""
    reader.at, reader.room = _skip_tags(reader, reader.data, reader.at, reader.room)


class _NoTags(_Tags):
    """For messages that declare no tagged fields: all received ones are skipped."""

    def __init__(self) -> None:
        self._fields = {}


def _skip_tags(reader: Reader, data: memoryview, at: int, room: int) -> tuple[int, int]:
    _, at, room = _NO_TAGS.read(reader, data, at, room)
    return at, room


_NO_TAGS: Final = _NoTags()


def _uvarint(data: memoryview, at: int) -> tuple[int, int]:
    """Return the unsigned varint at ``at`` (at most 32 bits) and the position after it. Raises ProtocolViolation."""
    value = shift = 0
    try:
        while (byte := data[at]) > 127:
            if shift == _LONGEST_UVARINT_SHIFT:
                _fail(at, "a varint of more than five bytes")
            value |= (byte & 127) << shift
            shift += 7
            at += 1
    except IndexError:
        _fail(at, "a varint that does not end")
    value |= byte << shift
    if value > 0xFFFFFFFF:
        _fail(at, "a varint of more than 32 bits")
    return value, at + 1


def _fail(at: int, what: str) -> NoReturn:
    raise ProtocolViolation(f"malformed message at byte {at}: {what}")


def _too_short(at: int, end: int) -> NoReturn:
    _fail(at, f"the message ends within a value, {max(0, end - at)} bytes on")


def _null(at: int, size: int, may_be_null: bool, path: str) -> None:
    if size != -1:
        _fail(at, f"{path} has a length of {size}")
    if not may_be_null:
        _fail(at, f"{path} is null")


def _wrong_mark(at: int, mark: int, path: str) -> NoReturn:
    _fail(at, f"{path} is marked {mark}, neither null (-1) nor present (1)")


def _wrong_length(at: int, end: int, size: int, longest: int, path: str) -> NoReturn:
    if size > longest:
        _fail(at, f"{path} has a length of {size}, a text has {longest} bytes at most")
    _fail(at, f"a length of {size} with {end - at} bytes left")


def _wrong_count(reader: Reader, at: int, end: int, count: int, least: int, path: str) -> NoReturn:
    if count * least > end - at:
        _fail(at, f"{path} has {count} elements with {end - at} bytes left")
    _too_many(reader, at, path)


def _too_many(reader: Reader, at: int, path: str) -> NoReturn:
    raise TooManyElements(
        f"malformed message at byte {at}: {path} brings the message to more than {reader.most} elements"
    )


def _put_uvarint(out: bytearray, value: int) -> None:
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)


def _refuse(name: str, version: int, found: object) -> NoReturn:
    """Refuse a value for a field that the version does not have: dropping it would change the message's meaning."""
    raise UsageError(f"{name} does not exist in version {version}: {found!r:.80}")


def _wrong_uuid(value: Any) -> NoReturn:
    raise ValueError(f"a uuid has 16 bytes, not {len(value)}")
