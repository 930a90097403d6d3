"""A message as TubeMQ sends it, and the record that the log keeps of it.

A message that says no time of its own is kept under the time of its arrival, marked as the log's (LogAppendTime), and
comes out again without any. What must not live here: the mapping itself (`records`), batches.
"""

from __future__ import annotations

from penstock.columnar.plain_records import Stored
from penstock.protocols.tubemq.java_hash import java_hash
from penstock.protocols.tubemq.messages.broker import TransferedMessage
from penstock.protocols.tubemq.records.single import HAS_ATTRIBUTES, checksum, pack, unpack

__all__ = ["FILTER_HEADER", "key_code_of", "message_of", "record_of"]

FILTER_HEADER = "tubemq.filter"
_NO_TIME = -1


def key_code_of(record: Stored) -> int | None:
    """The number of a record's filter item; None where it has none."""
    for name, value in record.headers:
        if name == FILTER_HEADER and value:
            return java_hash(value.decode("utf-8", "replace").strip())
    return None


def record_of(data: bytes, flag: int, msg_type: str, now_ms: int) -> Stored:
    """The record of a message sent now; ``msg_type`` counts where its attributes name no filter item.

    Raises CorruptBatch where the attributes are longer than the message.
    """
    if not flag & HAS_ATTRIBUTES and not msg_type:
        return Stored(0, now_ms, False, None, data, ())
    found = unpack(data, flag)
    headers = found.headers
    if found.filter_item is None and msg_type.strip():
        headers = ((FILTER_HEADER, msg_type.strip().encode()), *headers)
    timed = found.timestamp_ms != _NO_TIME
    return Stored(0, found.timestamp_ms if timed else now_ms, timed, found.key, found.value, headers)


def message_of(record: Stored) -> TransferedMessage:
    """The message of a record; its number in the partition is its id."""
    data, flag = pack(record.key, record.value, record.headers, record.timestamp_ms if record.timed else _NO_TIME)
    return TransferedMessage(message_id=record.offset, check_sum=checksum(data), pay_load_data=data, flag=flag)
