"""A message as TubeMQ sends it, and the record that the log keeps of it.

A message that says no time of its own is kept under the time of its arrival, marked as the log's (LogAppendTime), and
comes out again without any. What must not live here: the mapping itself (`records`), batches.
"""

from __future__ import annotations

from penstock.protocols.tubemq.java_hash import java_hash
from penstock.protocols.tubemq.messages.broker import TransferedMessage
from penstock.protocols.tubemq.records.single import checksum
from penstock.protocols.tubemq.records.verbatim import FILTER_HEADER, payload_of, said_by
from penstock.records.scalar_codec import Stored

__all__ = ["key_code_of", "message_of", "record_of"]

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
    if not flag and not msg_type:
        return Stored(0, now_ms, False, None, data, ())
    said = said_by(data, flag, msg_type)
    timed = said.timestamp_ms != _NO_TIME
    value = None if said.is_null else data[said.size :]
    return Stored(0, said.timestamp_ms if timed else now_ms, timed, said.key, value, said.headers)


def message_of(record: Stored) -> TransferedMessage:
    """The message of a record; its number in the partition is its id."""
    data, flag = payload_of(record.key, record.value, record.headers, record.timestamp_ms if record.timed else _NO_TIME)
    return TransferedMessage(message_id=record.offset, check_sum=checksum(data), pay_load_data=data, flag=flag)
