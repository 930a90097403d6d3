"""The table of methods: number, services, request and answer. Its rows are typed, so that a call's answer is too.

Source: Apache InLong TubeMQ 2.x, ``RpcConstants`` and ``RpcProtocol``. Numbers 11, 12, 14 and 19 exist there and are
served by nobody.
"""

from __future__ import annotations

import enum
from typing import Any, Final, Generic, TypeVar

from penstock._dataclasses import dataclass
from penstock.protocols.tubemq import messages
from penstock.protocols.tubemq.messages.declare import Message

__all__ = ["METHODS", "EventStatus", "EventType", "Method", "ReadStatus", "RegisterOperation", "Service"]

Request = TypeVar("Request", bound=Message)
Answer = TypeVar("Answer", bound=Message)


class Service(enum.IntEnum):
    """Who is asked."""

    MASTER = 1
    BROKER_READ = 2
    BROKER_WRITE = 3
    BROKER_ADMIN = 4
    MASTER_ADMIN = 5


class RegisterOperation(enum.IntEnum):
    """``op_type`` of REGISTER_PARTITION."""

    REGISTER = 31
    UNREGISTER = 32


class ReadStatus(enum.IntEnum):
    """``read_status`` of REGISTER_PARTITION: where to begin; when unregistering, other than 0 takes a batch back."""

    NORMAL = 0
    FROM_MAX_FIRST_TIME = 1
    FROM_MAX_ALWAYS = 2


class EventType(enum.IntEnum):
    """``op_type`` of an event; the ONLY_ ones mean the same as those without."""

    CONNECT = 1
    DISCONNECT = 2
    ONLY_CONNECT = 10
    ONLY_DISCONNECT = 20


class EventStatus(enum.IntEnum):
    """``status`` of an event; an acknowledgement says DONE."""

    TODO = 0
    PROCESSING = 1
    DONE = 2


@dataclass(frozen=True, slots=True)
class Method(Generic[Request, Answer]):
    """One method. ``services`` serve it, the first one is asked."""

    number: int
    name: str
    services: tuple[Service, ...]
    request: type[Request]
    answer: type[Answer]


_MASTER: Final = (Service.MASTER,)
_READ: Final = (Service.BROKER_READ,)
_WRITE: Final = (Service.BROKER_WRITE, Service.BROKER_READ)

PRODUCER_REGISTER: Final = Method(
    1, "producer register", _MASTER, messages.RegisterRequestP2M, messages.RegisterResponseM2P
)
PRODUCER_HEARTBEAT: Final = Method(
    2, "producer heartbeat", _MASTER, messages.HeartRequestP2M, messages.HeartResponseM2P
)
PRODUCER_CLOSE: Final = Method(3, "producer close", _MASTER, messages.CloseRequestP2M, messages.CloseResponseM2P)
CONSUMER_REGISTER: Final = Method(
    4, "consumer register", _MASTER, messages.RegisterRequestC2M, messages.RegisterResponseM2C
)
CONSUMER_HEARTBEAT: Final = Method(
    5, "consumer heartbeat", _MASTER, messages.HeartRequestC2M, messages.HeartResponseM2C
)
CONSUMER_CLOSE: Final = Method(6, "consumer close", _MASTER, messages.CloseRequestC2M, messages.CloseResponseM2C)
BROKER_REGISTER: Final = Method(
    7, "broker register", _MASTER, messages.RegisterRequestB2M, messages.RegisterResponseM2B
)
BROKER_HEARTBEAT: Final = Method(8, "broker heartbeat", _MASTER, messages.HeartRequestB2M, messages.HeartResponseM2B)
BROKER_CLOSE: Final = Method(9, "broker close", _MASTER, messages.CloseRequestB2M, messages.CloseResponseM2B)
SEND_MESSAGE: Final = Method(
    13, "send message", _WRITE, messages.SendMessageRequestP2B, messages.SendMessageResponseB2P
)
REGISTER_PARTITION: Final = Method(
    15, "register partition", _READ, messages.RegisterRequestC2B, messages.RegisterResponseB2C
)
PARTITION_HEARTBEAT: Final = Method(
    16, "partition heartbeat", _READ, messages.HeartBeatRequestC2B, messages.HeartBeatResponseB2C
)
GET_MESSAGE: Final = Method(17, "get message", _READ, messages.GetMessageRequestC2B, messages.GetMessageResponseB2C)
COMMIT_OFFSET: Final = Method(
    18, "commit offset", _READ, messages.CommitOffsetRequestC2B, messages.CommitOffsetResponseB2C
)
BALANCED_REGISTER: Final = Method(
    20, "balanced consumer register", _MASTER, messages.RegisterRequestC2MV2, messages.RegisterResponseM2CV2
)
BALANCED_HEARTBEAT: Final = Method(
    21, "balanced consumer heartbeat", _MASTER, messages.HeartRequestC2MV2, messages.HeartResponseM2CV2
)
PARTITION_META: Final = Method(
    22, "partition meta", _MASTER, messages.GetPartMetaRequestC2M, messages.GetPartMetaResponseM2C
)

METHODS: Final[dict[int, Method[Any, Any]]] = {
    method.number: method
    for method in (
        PRODUCER_REGISTER, PRODUCER_HEARTBEAT, PRODUCER_CLOSE, CONSUMER_REGISTER, CONSUMER_HEARTBEAT, CONSUMER_CLOSE,
        BROKER_REGISTER, BROKER_HEARTBEAT, BROKER_CLOSE, SEND_MESSAGE, REGISTER_PARTITION, PARTITION_HEARTBEAT,
        GET_MESSAGE, COMMIT_OFFSET, BALANCED_REGISTER, BALANCED_HEARTBEAT, PARTITION_META,
    )
}  # fmt: skip
"""Every method by its number."""
