"""What a kernel can do for TubeMQ: the functions, the attributes they know and what they report.

As in `penstock.kernels.interface`, both implementations give the same results, and the same fault at the same byte on
bad input. What must not live here: loops over bytes, Arrow, exceptions.

A message is protobuf's ``TransferedMessage``: id 1, checksum 2, payload 3, flag 4. With flag bit 0 the payload is a
length (4 bytes, big-endian), that many bytes of attributes, and the body; without it the body alone. Attributes are
``name=value`` between commas; blanks around both are cut off, and an element without ``=`` means nothing. Sources:
Apache InLong TubeMQ 2.x, ``DataConverterUtil`` and ``Message``; protobuf encoding guide.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:  # a node that takes single messages does without NumPy
    from penstock.kernels.interface import Bytes, Int32s, Int64s

__all__ = [
    "FILTER_HEADER",
    "FOUND_COLUMNS",
    "HEADER",
    "KEY",
    "MAX_ATTRIBUTES_OVERHEAD",
    "MAX_HEADER_ATTRIBUTE_OVERHEAD",
    "MAX_WRAP_OVERHEAD",
    "MINUTE_MS",
    "MSG_TIME",
    "MSG_TYPE",
    "NO_TIME",
    "OURS",
    "TIME",
    "VALUE",
    "Found",
    "Text",
    "TubeFault",
    "TubeKernel",
]

MSG_TYPE: Final = b"$msgType$"
MSG_TIME: Final = b"$msgTime$"
OURS: Final = b"$penstock."
KEY: Final = b"$penstock.key$"
TIME: Final = b"$penstock.time$"
VALUE: Final = b"$penstock.value$"
HEADER: Final = b"$penstock.header$"
FILTER_HEADER: Final = b"tubemq.filter"

MINUTE_MS: Final = 60_000

NO_TIME: Final = -1
"""Milliseconds of a record without a timestamp, as in Kafka."""

MAX_ATTRIBUTES_OVERHEAD: Final = 128
"""What attributes add to a record at most, beside its headers and 4/3 of its key."""

MAX_HEADER_ATTRIBUTE_OVERHEAD: Final = 32
"""What a header adds at most, beside 4/3 of its name and value."""

MAX_WRAP_OVERHEAD: Final = 44
"""What a message adds to its payload: five tags, three numbers of up to 10 bytes, two lengths."""


class TubeFault(enum.IntEnum):
    """What is wrong with a message's structure; the position says where the wrong field starts."""

    NONE = 0
    MESSAGE_LENGTH = 1
    TAG = 2
    NUMBER = 3
    LENGTH = 4
    WIRE_TYPE = 5
    REQUIRED = 6


class Found(enum.IntEnum):
    """Where `TubeKernel.walk_messages` reports what it found.

    ``CORRUPT`` counts messages that were left out because of their checksum or attribute length, ``FIRST_CORRUPT`` is
    the number of the first of them in the answer (-1: none); ``FILTERED`` counts those no filter item matched.
    """

    ROWS = 0
    HEADERS = 1
    CORRUPT = 2
    FIRST_CORRUPT = 3
    FILTERED = 4
    FAULT = 5
    POSITION = 6


FOUND_COLUMNS: Final = len(Found)


class Text(enum.IntEnum):
    """How the bytes of a key, a header's name or its value are written: as they are, in base64, or not at all."""

    PLAIN = 0
    BASE64 = 1
    FILTER = 2


class TubeKernel(Protocol):
    """The loops over TubeMQ's bytes. Every length is checked against what is left before it is used."""

    def count_messages(self, data: Bytes, at: int, end: int) -> tuple[int, int]:
        """Count the messages (field 4 of an answer) that follow each other from ``at`` on.

        Returns (messages, position after the last); stops at another field, and before a message that is cut off.
        """
        ...

    def walk_messages(
        self,
        data: Bytes,
        at: int,
        count: int,
        number: int,
        want: int,
        check_crcs: int,
        filters: Bytes,
        filter_ends: Int32s,
        row: int,
        key_at: Int32s,
        key_ends: Int32s,
        value_at: Int32s,
        value_ends: Int32s,
        numbers: Int64s,
        timestamps: Int64s,
        timestamp_types: Int32s,
        attributes_at: Int32s,
        attributes_to: Int32s,
        header_ends: Int32s,
        message_ids: Int64s,
        found: Int64s,
    ) -> None:
        """Walk ``count`` messages that `count_messages` found at ``at``; note where their parts are, from ``row`` on.

        ``number`` is that of the first one in its answer. ``want`` has bits of `penstock.kernels.interface`
        (``WANT_OFFSET`` stands for ``numbers``); arrays whose bit is missing are not touched, ``message_ids`` always
        are. ``key_at`` and ``value_at`` are -1 for null; keys are base64, and ``key_ends`` counts decoded bytes.
        ``timestamps`` are microseconds, those without one `NO_TIME` milliseconds and type -1. ``attributes_at`` and
        ``attributes_to`` bound a record's attributes for `walk_attributes`. With ``filters`` (joined, ends beside
        them), messages whose ``$msgType$`` is none of them are left out. ``found`` is added to, see `Found`;
        ``HEADERS`` must hold ``header_ends[row]``.
        """
        ...

    def walk_attributes(
        self,
        data: Bytes,
        attributes_at: Int32s,
        attributes_to: Int32s,
        header_ends: Int32s,
        first: int,
        last: int,
        name_at: Int32s,
        name_ends: Int32s,
        name_texts: Bytes,
        value_at: Int32s,
        value_ends: Int32s,
        value_texts: Bytes,
    ) -> None:
        """Note where names and values of the headers of rows ``first`` to ``last`` are, and how they are written."""
        ...

    def gather_texts(
        self, data: Bytes, at: Int32s, ends: Int32s, texts: Bytes, first: int, last: int, out: Bytes
    ) -> None:
        """Like `penstock.kernels.interface.Kernel.gather`, with a `Text` a row."""
        ...

    def encode_payloads(
        self,
        keys: Bytes,
        key_ends: Int32s,
        key_valid: Bytes,
        values: Bytes,
        value_ends: Int32s,
        value_valid: Bytes,
        timestamps: Int64s,
        header_ends: Int32s,
        names: Bytes,
        name_ends: Int32s,
        header_values: Bytes,
        header_value_ends: Int32s,
        header_valid: Bytes,
        out: Bytes,
        payload_ends: Int32s,
        flags: Int32s,
        filter_headers: Int32s,
    ) -> None:
        """Write a payload a timestamp (milliseconds) into ``out``; ``payload_ends`` gets rows + 1 positions.

        Columns are given as for `penstock.kernels.interface.Kernel.encode_records`. ``filter_headers`` gets the number
        of the header that became ``$msgType$``, -1 where none did.
        """
        ...

    def checksums(self, data: Bytes, ends: Int32s, out: Int32s) -> None:
        """Write the checksum of each ``data[ends[row]:ends[row + 1]]``: CRC-32 (IEEE 802.3) without its highest bit."""
        ...

    def wrap_messages(
        self, data: Bytes, ends: Int32s, flags: Int32s, sums: Int32s, message_ids: Int64s, out: Bytes
    ) -> int:
        """Write each payload as a message of an answer (field 4); returns the position after the last.

        ``out`` needs `MAX_WRAP_OVERHEAD` a message on top of the payloads, and `SLACK_BYTES`.
        """
        ...
