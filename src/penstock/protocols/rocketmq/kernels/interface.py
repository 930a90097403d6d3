"""What a kernel does for RocketMQ: its functions, the columns of their table, and the names of properties.

As in `penstock.kernels.interface`, both implementations give the same results, and the same fault at the same byte on
bad input.

A stored message is a fixed part, two hosts of 8 or 20 bytes, then body, topic and properties, each behind its length.
Properties are ``name 0x01 value 0x02``, the last 0x02 optional; an entry with an empty name or value is ignored.
Sources: Apache RocketMQ 4.9 and 5.x, ``MessageDecoder``, ``CommitLog``, ``MessageConst``.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Final, Protocol, cast

from penstock.kernels import kernel_of

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from penstock.kernels.interface import Bytes, Int32s

__all__ = [
    "CODED",
    "KIND_OF",
    "LEAST_BYTES",
    "MAGIC_1",
    "MAGIC_2",
    "STORED_COLUMNS",
    "Kind",
    "RocketKernel",
    "Stored",
    "StoredFault",
    "rocket_kernel",
]

LEAST_BYTES: Final = 91
"""The smallest stored message: no body, topic or properties, hosts of IPv4."""

MAGIC_1: Final = 0xDAA320A7
MAGIC_2: Final = 0xDAA320AB
"""The topic's length has two bytes, for topics longer than 127 bytes."""


class Stored(enum.IntEnum):
    """Columns of the table that `RocketKernel.scan_messages` fills, one row per message. ``*_AT`` are positions."""

    POSITION = 0
    SIZE = 1
    CRC = 2
    QUEUE_ID = 3
    FLAG = 4
    QUEUE_OFFSET = 5
    PHYSICAL_OFFSET = 6
    SYS_FLAG = 7
    BORN_MS = 8
    BORN_HOST_AT = 9
    STORE_MS = 10
    STORE_HOST_AT = 11
    RECONSUME_TIMES = 12
    PREPARED_OFFSET = 13
    BODY_AT = 14
    BODY_SIZE = 15
    TOPIC_AT = 16
    TOPIC_SIZE = 17
    PROPERTIES_AT = 18
    PROPERTIES_SIZE = 19


STORED_COLUMNS: Final = len(Stored)


class StoredFault(enum.IntEnum):
    """What is wrong with a message's structure; the position says where the wrong field starts."""

    NONE = 0
    SIZE = 1
    MAGIC = 2
    BODY_LENGTH = 3
    TOPIC_LENGTH = 4
    PROPERTIES_LENGTH = 5
    END = 6


class Kind(enum.IntEnum):
    """A property's kind by its name: header of a record; RocketMQ's own; the key; a tag; or coded by penstock."""

    HEADER = 0
    OWN = 1
    KEY = 2
    TAG = 3
    CODED = 4


CODED: Final = (b"penstock.headers", b"penstock.key", b"penstock.value", b"penstock.timestamp")

_OWN: Final = [
    "1ST_POP_TIME",
    "BORN_TIMESTAMP",
    "CHECK_IMMUNITY_TIME_IN_SECONDS",
    "CLUSTER",
    "CONSUME_START_TIME",
    "DELAY",
    "DLQ_ORIGIN_MESSAGE_ID",
    "DLQ_ORIGIN_TOPIC",
    "INNER_BASE",
    "INNER_MULTI_DISPATCH",
    "INNER_MULTI_QUEUE_OFFSET",
    "INNER_NUM",
    "INSTANCE_ID",
    "MAX_OFFSET",
    "MAX_RECONSUME_TIMES",
    "MIN_OFFSET",
    "MSG_REGION",
    "ORIGIN_MESSAGE_ID",
    "PGROUP",
    "POP_CK",
    "REAL_QID",
    "REAL_TOPIC",
    "RECONSUME_TIME",
    "RETRY_TOPIC",
    "TIMER_DELAY_MS",
    "TIMER_DELAY_SEC",
    "TIMER_DELIVER_MS",
    "TIMER_DEL_UNIQKEY",
    "TIMER_OUT_MS",
    "TIMER_ROLL_TIMES",
    "TRACE_ON",
    "TRANSACTION_CHECK_TIMES",
    "TRAN_MSG",
    "TRAN_PREPARED_QUEUE_OFFSET",
    "UNIQ_KEY",
    "WAIT",
    "__BORNHOST",
    "__CRC32#",
    "__transactionId__",
]

KIND_OF: Final = {
    b"KEYS": Kind.KEY,
    b"TAGS": Kind.TAG,
    **dict.fromkeys(CODED, Kind.CODED),
    **dict.fromkeys((name.encode() for name in _OWN), Kind.OWN),
}
"""Names that are not, or not only, headers. RocketMQ names that applications use (replies, order) stay headers."""


class RocketKernel(Protocol):
    """The loops over stored messages. Every length is checked against the remaining bytes before it is used."""

    def scan_messages(self, data: Bytes, at: int, end: int, table: npt.NDArray[np.int64]) -> tuple[int, int, int]:
        """List the messages in ``data[at:end]`` into ``table`` (rows × `Stored`), as many as it has rows.

        Returns (messages, position after the last one, fault). After a fault the position is the wrong field's.
        """
        ...

    def check_sums(self, data: Bytes, table: npt.NDArray[np.int64]) -> int:
        """Return how many rows come before one with a wrong checksum: CRC-32 (IEEE 802.3) without its highest bit."""
        ...

    def find_properties(
        self,
        data: Bytes,
        table: npt.NDArray[np.int64],
        every: int,
        key_at: Int32s,
        key_ends: Int32s,
        tag_at: Int32s,
        tag_sizes: Int32s,
        header_ends: Int32s,
        coded: Bytes,
    ) -> None:
        """Find each row's key and tag (-1: none; of several the last one counts), and count its headers.

        ``every`` 1 counts all properties as headers; 0 those of kind HEADER and TAG. ``key_ends`` and ``header_ends``
        get rows + 1 running totals. ``coded`` is 1 if the row has a property of kind CODED, which is never counted.
        """
        ...

    def walk_headers(
        self,
        data: Bytes,
        table: npt.NDArray[np.int64],
        every: int,
        header_ends: Int32s,
        name_at: Int32s,
        name_ends: Int32s,
        value_at: Int32s,
        value_ends: Int32s,
    ) -> None:
        """Write the positions of the names and values of the headers that `find_properties` counted."""
        ...


# The choice between RocketMQ's kernels, made by `penstock.kernels`.
_HOME: Final = __name__.rpartition(".")[0]


def rocket_kernel(size: int | None = None) -> RocketKernel:
    """Return the kernel for a piece of work of ``size`` bytes; None means "the chosen one, now"."""
    return cast("RocketKernel", kernel_of(_HOME, size))
