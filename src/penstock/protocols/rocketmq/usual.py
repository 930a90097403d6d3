"""The usual JSON header: as Java writes it, fields in alphabetical order, no space between, all ext fields text.

Nearly every header is one. It is recognised as a whole by one expression, and its ext fields stay the text that they
came as: whoever hands a command on writes that text again, and only who asks for a field has it read. The expression
takes nothing but JSON that every reader reads the same way, down to the last escape: a broker hangs up on a header that
it cannot read, and on all others' requests with it. What must not live here: headers of any other form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from json.scanner import make_scanner
from typing import Any, Final

__all__ = ["USUAL", "Written"]

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
