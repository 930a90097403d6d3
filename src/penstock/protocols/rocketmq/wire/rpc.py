"""The table of requests, and how requests, responses and refusals are built, signed and read.

`Method` is a row of the table; ``METHODS`` has all of them by code.
"""

from __future__ import annotations

import base64
import hmac
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Generic, TypeVar

from msgspec import Struct

from penstock.errors import ProtocolViolation
from penstock.interfaces.channel import Outgoing
from penstock.interfaces.framing import Buffer, Buffers, Frame
from penstock.protocols.rocketmq.errors import Code, error_of
from penstock.protocols.rocketmq.wire import messages as m
from penstock.protocols.rocketmq.wire.framing import (
    ONE_WAY,
    RESPONSE,
    VERSION,
    RemotingCommand,
    command_of,
    encode,
    framed,
    plain_fields,
)
from penstock.protocols.rocketmq.wire.messages import header_reader, header_writer, write_body, write_fields

__all__ = [
    "ACCESS_KEY",
    "METHODS",
    "SECURITY_TOKEN",
    "SIGNATURE",
    "UNSIGNED_KEY",
    "UNSIGNED_KEY_VERSION",
    "Account",
    "Answered",
    "Method",
    "answer",
    "is_signed",
    "read_answer",
    "read_request",
    "refusal",
    "request",
    "signature",
    "signed",
]

Request = TypeVar("Request")
Answer = TypeVar("Answer")


class Method(Struct, Generic[Request, Answer], frozen=True):
    """One request. ``letters``: its header has the short form. ``asked_by_servers``: servers send it to clients."""

    code: int
    name: str
    request: type[Request]
    answer: type[Answer]
    body: type | None = None
    answer_body: type | None = None
    letters: bool = False
    asked_by_servers: bool = False


_N: Final = m.NoFields

SEND_MESSAGE: Final = Method(10, "SEND_MESSAGE", m.SendMessage, m.Sent)
PULL_MESSAGE: Final = Method(11, "PULL_MESSAGE", m.PullMessage, m.Pulled)
QUERY_MESSAGE: Final = Method(12, "QUERY_MESSAGE", m.QueryMessage, m.QueriedMessages)
QUERY_CONSUMER_OFFSET: Final = Method(14, "QUERY_CONSUMER_OFFSET", m.QueryConsumerOffset, m.FoundOffset)
UPDATE_CONSUMER_OFFSET: Final = Method(15, "UPDATE_CONSUMER_OFFSET", m.UpdateConsumerOffset, _N)
UPDATE_AND_CREATE_TOPIC: Final = Method(17, "UPDATE_AND_CREATE_TOPIC", m.CreateTopic, _N)
UPDATE_AND_CREATE_TOPIC_LIST: Final = Method(18, "UPDATE_AND_CREATE_TOPIC_LIST", _N, _N, m.TopicConfigList)
GET_ALL_TOPIC_CONFIG: Final = Method(21, "GET_ALL_TOPIC_CONFIG", _N, _N, answer_body=m.TopicConfigs)
UPDATE_BROKER_CONFIG: Final = Method(25, "UPDATE_BROKER_CONFIG", _N, _N)
GET_BROKER_CONFIG: Final = Method(26, "GET_BROKER_CONFIG", _N, _N)
GET_BROKER_RUNTIME_INFO: Final = Method(28, "GET_BROKER_RUNTIME_INFO", _N, _N, answer_body=m.Table)
SEARCH_OFFSET_BY_TIMESTAMP: Final = Method(29, "SEARCH_OFFSET_BY_TIMESTAMP", m.SearchOffset, m.FoundOffset)
GET_MAX_OFFSET: Final = Method(30, "GET_MAX_OFFSET", m.OfQueue, m.FoundOffset)
GET_MIN_OFFSET: Final = Method(31, "GET_MIN_OFFSET", m.OfQueue, m.FoundOffset)
GET_EARLIEST_MSG_STORETIME: Final = Method(32, "GET_EARLIEST_MSG_STORETIME", m.OfQueue, m.StoreTime)
VIEW_MESSAGE_BY_ID: Final = Method(33, "VIEW_MESSAGE_BY_ID", m.ViewMessage, _N)
HEART_BEAT: Final = Method(34, "HEART_BEAT", _N, _N, m.HeartbeatData)
UNREGISTER_CLIENT: Final = Method(35, "UNREGISTER_CLIENT", m.UnregisterClient, _N)
CONSUMER_SEND_MSG_BACK: Final = Method(36, "CONSUMER_SEND_MSG_BACK", m.SendBack, _N)
END_TRANSACTION: Final = Method(37, "END_TRANSACTION", m.EndTransaction, _N)
GET_CONSUMER_LIST_BY_GROUP: Final = Method(38, "GET_CONSUMER_LIST_BY_GROUP", m.OfGroup, _N, answer_body=m.ConsumerIds)
CHECK_TRANSACTION_STATE: Final = Method(39, "CHECK_TRANSACTION_STATE", m.CheckTransaction, _N, asked_by_servers=True)
NOTIFY_CONSUMER_IDS_CHANGED: Final = Method(40, "NOTIFY_CONSUMER_IDS_CHANGED", m.OfGroup, _N, asked_by_servers=True)
LOCK_BATCH_MQ: Final = Method(41, "LOCK_BATCH_MQ", m.Routed, _N, m.LockQueues, m.LockedQueues)
UNLOCK_BATCH_MQ: Final = Method(42, "UNLOCK_BATCH_MQ", m.Routed, _N, m.LockQueues)
GET_ALL_CONSUMER_OFFSET: Final = Method(43, "GET_ALL_CONSUMER_OFFSET", _N, _N, answer_body=m.ConsumerOffsets)
CHECK_CLIENT_CONFIG: Final = Method(46, "CHECK_CLIENT_CONFIG", _N, _N, m.CheckClientConfig)
PUT_KV_CONFIG: Final = Method(100, "PUT_KV_CONFIG", m.PutKv, _N)
GET_KV_CONFIG: Final = Method(101, "GET_KV_CONFIG", m.OfKv, m.KvValue)
DELETE_KV_CONFIG: Final = Method(102, "DELETE_KV_CONFIG", m.OfKv, _N)
GET_ROUTEINFO_BY_TOPIC: Final = Method(105, "GET_ROUTEINFO_BY_TOPIC", m.GetRoute, _N, answer_body=m.Route)
GET_BROKER_CLUSTER_INFO: Final = Method(106, "GET_BROKER_CLUSTER_INFO", _N, _N, answer_body=m.ClusterInfo)
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP: Final = Method(
    200, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP", _N, _N, m.SubscriptionGroupConfig
)
GET_ALL_SUBSCRIPTIONGROUP_CONFIG: Final = Method(
    201, "GET_ALL_SUBSCRIPTIONGROUP_CONFIG", _N, _N, answer_body=m.SubscriptionGroups
)
GET_TOPIC_STATS_INFO: Final = Method(202, "GET_TOPIC_STATS_INFO", m.OfTopic, _N, answer_body=m.TopicStats)
GET_CONSUMER_CONNECTION_LIST: Final = Method(
    203, "GET_CONSUMER_CONNECTION_LIST", m.OfGroup, _N, answer_body=m.ConsumerConnection
)
GET_PRODUCER_CONNECTION_LIST: Final = Method(
    204, "GET_PRODUCER_CONNECTION_LIST", m.OfProducers, _N, answer_body=m.ConsumerConnection
)
WIPE_WRITE_PERM_OF_BROKER: Final = Method(205, "WIPE_WRITE_PERM_OF_BROKER", m.OfBroker, m.WipedTopics)
GET_ALL_TOPIC_LIST_FROM_NAMESERVER: Final = Method(
    206, "GET_ALL_TOPIC_LIST_FROM_NAMESERVER", _N, _N, answer_body=m.TopicList
)
DELETE_SUBSCRIPTIONGROUP: Final = Method(207, "DELETE_SUBSCRIPTIONGROUP", m.DeleteGroup, _N)
GET_CONSUME_STATS: Final = Method(208, "GET_CONSUME_STATS", m.StatsOfGroup, _N, answer_body=m.ConsumeStats)
DELETE_TOPIC_IN_BROKER: Final = Method(215, "DELETE_TOPIC_IN_BROKER", m.OfTopic, _N)
DELETE_TOPIC_IN_NAMESRV: Final = Method(216, "DELETE_TOPIC_IN_NAMESRV", m.OfTopic, _N)
GET_KVLIST_BY_NAMESPACE: Final = Method(219, "GET_KVLIST_BY_NAMESPACE", m.OfNamespace, _N, answer_body=m.Table)
RESET_CONSUMER_CLIENT_OFFSET: Final = Method(
    220, "RESET_CONSUMER_CLIENT_OFFSET", m.ResetOffsetsOfGroup, _N, m.ResetOffset, asked_by_servers=True
)
GET_CONSUMER_STATUS_FROM_CLIENT: Final = Method(
    221, "GET_CONSUMER_STATUS_FROM_CLIENT", m.GetConsumerStatus, _N, answer_body=m.ConsumerStatus, asked_by_servers=True
)
INVOKE_BROKER_TO_RESET_OFFSET: Final = Method(
    222, "INVOKE_BROKER_TO_RESET_OFFSET", m.ResetOffsetsOfGroup, _N, answer_body=m.ResetOffset
)
GET_TOPICS_BY_CLUSTER: Final = Method(224, "GET_TOPICS_BY_CLUSTER", m.OfCluster, _N, answer_body=m.TopicList)
UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST: Final = Method(
    225, "UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST", _N, _N, m.SubscriptionGroupList
)
QUERY_TOPIC_CONSUME_BY_WHO: Final = Method(300, "QUERY_TOPIC_CONSUME_BY_WHO", m.OfTopic, _N, answer_body=m.Groups)
GET_SYSTEM_TOPIC_LIST_FROM_NS: Final = Method(304, "GET_SYSTEM_TOPIC_LIST_FROM_NS", _N, _N, answer_body=m.TopicList)
GET_SYSTEM_TOPIC_LIST_FROM_BROKER: Final = Method(
    305, "GET_SYSTEM_TOPIC_LIST_FROM_BROKER", _N, _N, answer_body=m.TopicList
)
GET_CONSUMER_RUNNING_INFO: Final = Method(307, "GET_CONSUMER_RUNNING_INFO", m.OfMember, _N)
CONSUME_MESSAGE_DIRECTLY: Final = Method(309, "CONSUME_MESSAGE_DIRECTLY", m.ConsumeDirectly, _N)
SEND_MESSAGE_V2: Final = Method(310, "SEND_MESSAGE_V2", m.SendMessage, m.Sent, letters=True)
VIEW_BROKER_STATS_DATA: Final = Method(315, "VIEW_BROKER_STATS_DATA", m.StatsOf, _N)
GET_BROKER_CONSUME_STATS: Final = Method(
    317, "GET_BROKER_CONSUME_STATS", m.StatsOfAll, _N, answer_body=m.ConsumeStatsOfAll
)
GET_NAMESRV_CONFIG: Final = Method(319, "GET_NAMESRV_CONFIG", _N, _N)
SEND_BATCH_MESSAGE: Final = Method(320, "SEND_BATCH_MESSAGE", m.SendMessage, m.Sent, letters=True)
SEND_REPLY_MESSAGE: Final = Method(324, "SEND_REPLY_MESSAGE", m.SendMessage, m.Sent)
SEND_REPLY_MESSAGE_V2: Final = Method(325, "SEND_REPLY_MESSAGE_V2", m.SendMessage, m.Sent, letters=True)
PUSH_REPLY_MESSAGE_TO_CLIENT: Final = Method(
    326, "PUSH_REPLY_MESSAGE_TO_CLIENT", m.PushReply, _N, asked_by_servers=True
)
ADD_WRITE_PERM_OF_BROKER: Final = Method(327, "ADD_WRITE_PERM_OF_BROKER", m.OfBroker, m.AddedTopics)
GET_ALL_PRODUCER_INFO: Final = Method(328, "GET_ALL_PRODUCER_INFO", _N, _N, answer_body=m.Producers)
REGISTER_SNODE: Final = Method(350, "REGISTER_SNODE", m.RegisterSnode, _N)
GET_TOPIC_CONFIG: Final = Method(351, "GET_TOPIC_CONFIG", m.OfTopic, _N, answer_body=m.TopicConfig)
GET_SUBSCRIPTIONGROUP_CONFIG: Final = Method(
    352, "GET_SUBSCRIPTIONGROUP_CONFIG", m.OfGroupName, _N, answer_body=m.SubscriptionGroupConfig
)
GET_SNODE_CLUSTER_INFO: Final = Method(353, "GET_SNODE_CLUSTER_INFO", _N, _N, answer_body=m.SnodeClusterInfo)
GET_SNODE_INFO: Final = Method(354, "GET_SNODE_INFO", m.OfSnodeCluster, _N, answer_body=m.SnodeClusterInfo)
CREATE_RETRY_TOPIC: Final = Method(355, "CREATE_RETRY_TOPIC", m.CreateRetryTopic, _N)
LITE_PULL_MESSAGE: Final = Method(361, "LITE_PULL_MESSAGE", m.PullMessage, m.Pulled)
ASK_PEER: Final = Method(5_264_212, "ASK_PEER", _N, _N, m.AskPeer, m.TellPeer)
"""Penstock's own, above all numbers of RocketMQ: a Snode asks another one for its clients."""

METHODS: Final[dict[int, Method[Any, Any]]] = {
    each.code: each for each in list(globals().values()) if isinstance(each, Method)
}
"""All methods, by code."""

SNODE_PULL_MESSAGE: Final = Method(351, "SNODE_PULL_MESSAGE", m.PullMessage, m.Pulled)
"""The first Snode's pull. 5.x gave its number to `GET_TOPIC_CONFIG`, so it is not in ``METHODS`` (``server/call``)."""

# Signatures of requests: HMAC-SHA1 over the values of all ext fields, in the order of their names, and the body. Code,
# number and remark are not signed. Source: Apache RocketMQ 4.9, ``AclUtils``, ``AclSigner``; the same in 5.x.
ACCESS_KEY: Final = "AccessKey"
SECURITY_TOKEN: Final = "SecurityToken"
SIGNATURE: Final = "Signature"


@dataclass(frozen=True, slots=True)
class Account:
    """The account of a client. The secret is never sent, and is in no repr."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)


def signature(secret_key: str, fields: Mapping[str, str], body: Buffer, *, without: Collection[str] = ()) -> str:
    """Return the signature of the body and these ext fields, without the signature itself and those of ``without``.

    Names are sorted as in Java, by UTF-16 units.
    """
    skipped = {SIGNATURE, *without}
    names = sorted((name for name in fields if name not in skipped), key=lambda name: name.encode("utf-16-be"))
    made = hmac.new(secret_key.encode(), "".join(fields[name] for name in names).encode(), "sha1")
    made.update(body)
    return base64.b64encode(made.digest()).decode()


def signed(
    account: Account, fields: Mapping[str, str], body: Buffer, *, without: Collection[str] = ()
) -> dict[str, str]:
    """Return ``fields`` with the account's key and the signature."""
    whole = {**fields, ACCESS_KEY: account.access_key}
    if account.security_token is not None:
        whole[SECURITY_TOKEN] = account.security_token
    whole[SIGNATURE] = signature(account.secret_key, whole, body, without=without)
    return whole


def is_signed(secret_key: str, fields: Mapping[str, str], body: Buffer, *, without: Collection[str] = ()) -> bool:
    """Whether the fields have the right signature."""
    said = fields.get(SIGNATURE, "")
    return hmac.compare_digest(said.encode(), signature(secret_key, fields, body, without=without).encode())


# Building and reading requests and responses.
Req = TypeVar("Req")
Ans = TypeVar("Ans")

UNSIGNED_KEY: Final = "_UNIQUE_KEY_QUERY"
UNSIGNED_KEY_VERSION: Final = 399
_QUERY_MESSAGE: Final = 12


class Answered(Struct, Generic[Ans], frozen=True):
    """A response: its code, its header, and the whole command with the body."""

    code: int
    header: Ans
    command: RemotingCommand

    @property
    def body(self) -> memoryview:
        """The body's bytes."""
        return memoryview(self.command.body)


def request(
    method: Method[Req, Ans],
    header: Req,
    body: object = b"",
    *,
    one_way: bool = False,
    compact: bool = False,
    account: Account | None = None,
    extra: Mapping[str, str] | None = None,
) -> Outgoing:
    """Return a request, to be framed with the number that a connection chooses. Raises UsageError.

    ``body`` is bytes or a declared body. ``extra`` are further ext fields. With an ``account`` the request is signed.
    """
    content = body if isinstance(body, Buffer) else write_body(body)
    fields: dict[str, str] = write_fields(header, letters=method.letters)
    if extra:
        fields |= extra
    version = VERSION
    if account is not None:
        # Brokers differ in whether they sign this field; all agree that requests of an old version do not sign it.
        without: Collection[str] = ()
        if method.code == _QUERY_MESSAGE:
            version, without = UNSIGNED_KEY_VERSION, (UNSIGNED_KEY,)
        fields = signed(account, fields, content, without=without)
    return framed(
        RemotingCommand(method.code, 0, ONE_WAY if one_way else 0, fields, content, version=version, compact=compact)
    )


def read_answer(
    method: Method[Req, Ans],
    frame: Frame,
    *,
    accept: Collection[int] = (Code.SUCCESS,),
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    node: str | None = None,
) -> Answered[Ans]:
    """Read the response to ``method``. A code that is not in ``accept`` raises ServerError with the given place.

    Raises ProtocolViolation for a header that is not as declared.
    """
    command = command_of(frame)
    if command.code not in accept:
        raise error_of(command.code, command.remark, topic=topic, partition=partition, offset=offset, node=node)
    try:
        return Answered(command.code, header_reader(method.answer, False)(plain_fields(command)), command)  # type: ignore[arg-type]  # mypy takes no type for hashable
    except ProtocolViolation as error:
        error.topic, error.partition, error.node = topic, partition, node
        raise


def read_request(method: Method[Req, Ans], command: RemotingCommand) -> Req:
    """Return the header of a request. Some clients send it in the other of the two forms, names or letters.

    Raises ProtocolViolation that names the field.
    """
    header: Req = header_reader(method.request, method.letters)(plain_fields(command))  # type: ignore[arg-type]  # mypy takes no type for hashable
    return header


def answer(
    asked: RemotingCommand, header: object = None, body: object = b"", *, code: int = Code.SUCCESS,
    remark: str | None = None, extra: Mapping[str, str] | None = None,
) -> Buffers:  # fmt: skip
    """Return the framed response to a request, with its number and in its form."""
    content = body if isinstance(body, Buffer) else write_body(body)
    fields = {} if header is None else header_writer(type(header), False)(header)  # type: ignore[arg-type]  # mypy takes no type for hashable
    if extra:
        fields |= extra
    return encode(RemotingCommand(code, asked.opaque, RESPONSE, fields, content, remark, compact=asked.compact))


def refusal(asked: RemotingCommand, code: int, remark: str) -> Buffers:
    """Return the framed error response to a request."""
    return answer(asked, code=code, remark=remark)
