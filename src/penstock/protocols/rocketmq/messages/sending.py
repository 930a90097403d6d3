"""Sends and what follows them: 10, 310, 320, 36, 37, 39; replies to requests: 324, 325, 326.

Source: Apache RocketMQ 4.9 and 5.x, ``SendMessageRequestHeader`` (and ``…V2``, whose names are letters),
``ConsumerSendMsgBackRequestHeader``, ``EndTransactionRequestHeader``, ``CheckTransactionStateRequestHeader``,
``ReplyMessageRequestHeader``.
"""

from __future__ import annotations

import enum
from typing import Annotated

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.messages.declare import Int32, Int64, letter, named

__all__ = [
    "CheckTransaction",
    "Decision",
    "EndTransaction",
    "PushReply",
    "SendBack",
    "SendMessage",
    "Sent",
]


class Decision(enum.IntEnum):
    """``commit_or_rollback`` of END_TRANSACTION; the bits of a message's sysFlag."""

    UNKNOWN = 0
    COMMIT = 8
    ROLLBACK = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class SendMessage:
    """10 and 324 by names, 310, 320 and 325 by letters. ``broker_name`` tells a proxy where to; brokers ignore it."""

    producer_group: Annotated[str, letter("a")]
    topic: Annotated[str, letter("b")]
    default_topic: Annotated[str, letter("c")] = "TBW102"
    default_topic_queue_nums: Annotated[Int32, letter("d")] = 4
    queue_id: Annotated[Int32, letter("e")]
    sys_flag: Annotated[Int32, letter("f")]
    born_timestamp: Annotated[Int64, letter("g")]
    flag: Annotated[Int32, letter("h")] = 0
    properties: Annotated[str | None, letter("i")] = None
    reconsume_times: Annotated[Int32 | None, letter("j")] = None
    unit_mode: Annotated[bool | None, letter("k")] = None
    max_reconsume_times: Annotated[Int32 | None, letter("l")] = None
    batch: Annotated[bool | None, letter("m")] = None
    broker_name: Annotated[str | None, named("bname", "n")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """The answer to a send. A batch has one id a message, between commas, and its first message's offset."""

    msg_id: str
    queue_id: Int32
    queue_offset: Int64
    transaction_id: str | None = None
    batch_uniq_id: str | None = None
    recall_handle: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SendBack:
    """36: have a message delivered again later, to this group only. ``offset`` is its place in the commit log."""

    offset: Int64
    group: str
    delay_level: Int32
    origin_msg_id: str | None = None
    origin_topic: str | None = None
    unit_mode: bool | None = None
    max_reconsume_times: Int32 | None = None
    broker_name: Annotated[str | None, named("bname")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EndTransaction:
    """37, one-way: what became of the transaction that a half message began. ``msg_id`` is the message's UNIQ_KEY."""

    producer_group: str
    tran_state_table_offset: Int64
    commit_log_offset: Int64
    commit_or_rollback: Int32
    msg_id: str
    from_transaction_check: bool | None = None
    transaction_id: str | None = None
    topic: str | None = None
    broker_name: Annotated[str | None, named("bname")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTransaction:
    """39, asked by a broker: what became of it? The body is the half message as it is stored."""

    tran_state_table_offset: Int64
    commit_log_offset: Int64
    msg_id: str | None = None
    transaction_id: str | None = None
    offset_msg_id: str | None = None
    topic: str | None = None
    broker_name: Annotated[str | None, named("bname")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PushReply:
    """326, asked by a broker of the client whose request a message answers. The body is the message's."""

    producer_group: str
    topic: str
    default_topic: str = "TBW102"
    default_topic_queue_nums: Int32 = 4
    queue_id: Int32
    sys_flag: Int32
    born_timestamp: Int64
    flag: Int32 = 0
    properties: str | None = None
    reconsume_times: Int32 | None = None
    unit_mode: bool | None = None
    born_host: str
    store_host: str
    store_timestamp: Int64
