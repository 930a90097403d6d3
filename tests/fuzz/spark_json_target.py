"""JSON decoding: whatever bytes values are made of, each is a row or an error, and Arrow's reader lives through it."""

from collections.abc import Iterator

import pyarrow as pa

from penstock.spark._ddl import parse_ddl
from penstock.spark._decode_json import JsonDecoder

_BETWEEN = b"\x1e"
_SCHEMAS = (
    "i int, s string, d decimal(10,2), t timestamp, y date, a array<struct<x:double,n:timestamp_ntz>>",
    "m map<string,array<int>>, b binary, f float",
)
_DECODERS = tuple(JsonDecoder(parse_ddl(ddl)) for ddl in _SCHEMAS)


def run(data: bytes) -> None:
    """``data`` is values with a record separator between them."""
    values = data.split(_BETWEEN)
    for decoder in _DECODERS:
        column, errors = decoder.decode(pa.array(values, pa.binary()))
        column.validate(full=True)
        assert len(column) == len(values)
        for row, value in enumerate(values):
            assert not (row in errors and column[row].is_valid)
            assert row in errors or column[row].is_valid or value.strip() == b"null"


def seeds() -> Iterator[bytes]:
    """Good values, and what Arrow's reader cannot be given."""
    good = b'{"i":1,"s":"a}b","d":1.25,"t":"2024-01-02T03:04:05Z","y":"2024-01-02","a":[{"x":1e3,"n":null},null]}'
    yield good
    yield b'{"m":{"k":[1,null]},"b":"AP8=","f":1.5}'
    yield _BETWEEN.join([good, b"null", b'{"i":1}{"i":2}', b'{"i":', b'{"s":"} null {"}', b"", good])
