"""Kafka's error codes: the rows that make our errors from them, and `ErrorCode` with the server's codes by name."""

from __future__ import annotations

import enum
from typing import Final, NamedTuple, Unpack

from penstock.errors import ErrorKind, FencedError, OffsetOutOfRange, ServerError
from penstock.interfaces.wire import Where, server_error

__all__ = ["ErrorCode"]

# Source: Kafka protocol guide, "Error Codes" (4.4). A code that is not listed is treated as UNKNOWN_SERVER_ERROR and
# keeps its number: a newer broker must not break an older client.
NONE: Final = 0
OFFSET_OUT_OF_RANGE: Final = 1
FENCED: Final = frozenset((47, 82, 90, 110))
"""Codes for a lost identity: another process has it, or the group removed the member."""

_KINDS: Final = {
    ErrorKind.TOO_LARGE: (10, 18),
    ErrorKind.OFFSET_OUT_OF_RANGE: (OFFSET_OUT_OF_RANGE,),
    ErrorKind.NOT_LEADER: (5, 6, 74),
    ErrorKind.UNKNOWN_TOPIC: (3, 100),
    ErrorKind.TOPIC_EXISTS: (36,),
    ErrorKind.TOO_FEW_NODES: (38,),
    ErrorKind.NOT_AUTHORIZED: (29, 30, 31, 53, 58, 65),
    ErrorKind.FENCED: FENCED,
    ErrorKind.NOT_A_MEMBER: (22, 25, 27),
    ErrorKind.WRONG_TRANSACTION_STATE: (48,),
    ErrorKind.TRANSACTION_TIMEOUT_TOO_LONG: (50,),
    ErrorKind.THROTTLED: (89,),
    ErrorKind.UNAVAILABLE: (8, 14, 15, 19, 56),
    ErrorKind.UNSUPPORTED: (35, 43, 76),
}
_KIND_OF: Final = {code: kind for kind, codes in _KINDS.items() for code in codes}


class ErrorRow(NamedTuple):
    """One code: its name, advice for a user, whether a retry can help, and which knowledge to refresh before it."""

    code: int
    name: str
    advice: str
    retriable: bool = False
    refresh_metadata: bool = False
    rediscover_coordinator: bool = False


def _final(code: int, name: str, advice: str) -> ErrorRow:
    """Not retriable: the same request will fail again."""
    return ErrorRow(code, name, advice)


def _again(code: int, name: str, advice: str) -> ErrorRow:
    """Retriable with the same broker."""
    return ErrorRow(code, name, advice, retriable=True)


def _moved(code: int, name: str, advice: str) -> ErrorRow:
    """Retriable after a metadata refresh."""
    return ErrorRow(code, name, advice, retriable=True, refresh_metadata=True)


def _group_moved(code: int, name: str, advice: str) -> ErrorRow:
    """Retriable after the coordinator has been found again."""
    return ErrorRow(code, name, advice, retriable=True, rediscover_coordinator=True)


_ROWS = (
    _final(-1, "UNKNOWN_SERVER_ERROR", "look at the broker's log: it hit an error it has no code for"),
    _final(0, "NONE", "nothing to do"),
    _final(1, "OFFSET_OUT_OF_RANGE", "seek: the log begins later (retention) or ends earlier than this offset"),
    _again(2, "CORRUPT_MESSAGE", "produce it again; if it stays, check the network and the broker's disk"),
    _moved(3, "UNKNOWN_TOPIC_OR_PARTITION", "create the topic, or check its name and the partition number"),
    _final(4, "INVALID_FETCH_SIZE", "ask for a positive number of bytes"),
    _moved(5, "LEADER_NOT_AVAILABLE", "try again shortly: an election is going on"),
    _moved(6, "NOT_LEADER_OR_FOLLOWER", "refresh metadata and ask the new leader"),
    _again(7, "REQUEST_TIMED_OUT", "try again, or raise the timeout: the broker could not finish in time"),
    _final(8, "BROKER_NOT_AVAILABLE", "start the broker that the request is for, or choose another"),
    _moved(9, "REPLICA_NOT_AVAILABLE", "try again shortly: the replica is being moved or is not up yet"),
    _final(10, "MESSAGE_TOO_LARGE", "raise max.message.bytes of the topic or send smaller batches"),
    _final(11, "STALE_CONTROLLER_EPOCH", "ask the newer controller: this one was replaced"),
    _final(12, "OFFSET_METADATA_TOO_LARGE", "shorten the text of the commit (offset.metadata.max.bytes)"),
    _again(13, "NETWORK_EXCEPTION", "try again: the broker lost the connection it needed before it had an answer"),
    _again(14, "COORDINATOR_LOAD_IN_PROGRESS", "try again shortly: the coordinator is loading its groups"),
    _group_moved(15, "COORDINATOR_NOT_AVAILABLE", "try again shortly: no coordinator is ready yet"),
    _group_moved(16, "NOT_COORDINATOR", "find the coordinator again: the group moved"),
    _final(17, "INVALID_TOPIC_EXCEPTION", "name it with 1 to 249 of a-z A-Z 0-9 . _ - ; internal topics are read-only"),
    _final(18, "RECORD_LIST_TOO_LARGE", "send smaller batches or raise segment.bytes"),
    _again(19, "NOT_ENOUGH_REPLICAS", "wait for replicas to come back in sync, or lower min.insync.replicas"),
    _again(
        20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "it was stored, on too few replicas; sending it again may double it"
    ),
    _final(21, "INVALID_REQUIRED_ACKS", "use acks 0, 1 or -1 (all)"),
    _final(22, "ILLEGAL_GENERATION", "join again: the group went on without this member"),
    _final(
        23,
        "INCONSISTENT_GROUP_PROTOCOL",
        "give all members an assignor in common, and the same protocol type; to change that of a running group, "
        "restart every member with both listed, one by one, then with the new one alone",
    ),
    _final(24, "INVALID_GROUP_ID", "give the group a name that is not empty"),
    _final(25, "UNKNOWN_MEMBER_ID", "join again: this member was removed, mostly after a session timeout"),
    _final(
        26, "INVALID_SESSION_TIMEOUT", "choose one within group.min.session.timeout.ms and group.max.session.timeout.ms"
    ),
    _final(27, "REBALANCE_IN_PROGRESS", "join again: the group is being divided anew"),
    _final(
        28, "INVALID_COMMIT_OFFSET_SIZE", "commit fewer offsets at a time: the record would exceed the broker's limit"
    ),
    _final(29, "TOPIC_AUTHORIZATION_FAILED", "ask an administrator for READ or WRITE on the topic"),
    _final(30, "GROUP_AUTHORIZATION_FAILED", "ask an administrator for READ on the group"),
    _final(31, "CLUSTER_AUTHORIZATION_FAILED", "ask an administrator for this permission on the cluster"),
    _final(32, "INVALID_TIMESTAMP", "give the record a time that the topic accepts (message.timestamp.before.max.ms)"),
    _final(33, "UNSUPPORTED_SASL_MECHANISM", "use one of the mechanisms that the broker enables"),
    _final(34, "ILLEGAL_SASL_STATE", "authenticate first, and only once"),
    _final(35, "UNSUPPORTED_VERSION", "upgrade the older side: they have no version of this request in common"),
    _final(36, "TOPIC_ALREADY_EXISTS", "use the topic that is there, or delete it first"),
    _final(37, "INVALID_PARTITIONS", "ask for at least one partition, and for more than there are"),
    _final(38, "INVALID_REPLICATION_FACTOR", "ask for no more replicas than there are brokers, and at least one"),
    _final(39, "INVALID_REPLICA_ASSIGNMENT", "name existing brokers, the same number for every partition"),
    _final(40, "INVALID_CONFIG", "check the setting's name and value"),
    _again(41, "NOT_CONTROLLER", "ask the controller that metadata names"),
    _final(42, "INVALID_REQUEST", "check the arguments: the request contradicts itself, or broker and client disagree"),
    _final(43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", "upgrade the topic's message format: its format lacks this feature"),
    _final(44, "POLICY_VIOLATION", "keep to the cluster's policy, which its message names"),
    _final(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", "abort, or start the producer anew: a batch of its sequence was lost"),
    _final(46, "DUPLICATE_SEQUENCE_NUMBER", "nothing to do: the batch is in the log already"),
    _final(47, "INVALID_PRODUCER_EPOCH", "stop this producer: a newer one has its id"),
    _final(48, "INVALID_TXN_STATE", "end the open transaction, or begin one, before this call"),
    _final(49, "INVALID_PRODUCER_ID_MAPPING", "start the producer anew: the broker forgot its transactional id"),
    _final(50, "INVALID_TRANSACTION_TIMEOUT", "choose a timeout of at most transaction.max.timeout.ms"),
    _again(51, "CONCURRENT_TRANSACTIONS", "try again: the previous transaction is still ending"),
    _final(52, "TRANSACTION_COORDINATOR_FENCED", "nothing to do: a newer coordinator ends the transaction"),
    _final(53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", "ask an administrator for WRITE on the transactional id"),
    _final(54, "SECURITY_DISABLED", "configure an authorizer on the broker, or do without access rules"),
    _final(55, "OPERATION_NOT_ATTEMPTED", "mend what else failed in the same request and repeat it"),
    _moved(56, "KAFKA_STORAGE_ERROR", "check the broker's disk: the partition's directory is offline"),
    _final(57, "LOG_DIR_NOT_FOUND", "name a directory of the broker's log.dirs"),
    _final(58, "SASL_AUTHENTICATION_FAILED", "check user and password"),
    _final(59, "UNKNOWN_PRODUCER_ID", "start the producer anew: all its records were deleted by retention"),
    _final(60, "REASSIGNMENT_IN_PROGRESS", "wait until the partition's move is over"),
    _final(61, "DELEGATION_TOKEN_AUTH_DISABLED", "set delegation.token.secret.key on the broker"),
    _final(62, "DELEGATION_TOKEN_NOT_FOUND", "create a new token"),
    _final(63, "DELEGATION_TOKEN_OWNER_MISMATCH", "act as the token's owner or as one of its renewers"),
    _final(64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", "use an authenticated connection, itself not made with a token"),
    _final(65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", "ask an administrator for DESCRIBE on the token"),
    _final(66, "DELEGATION_TOKEN_EXPIRED", "create a new token, and renew it in time"),
    _final(67, "INVALID_PRINCIPAL_TYPE", "use principals of type User"),
    _final(68, "NON_EMPTY_GROUP", "stop the group's members first"),
    _final(69, "GROUP_ID_NOT_FOUND", "check the group's name: there is no such group"),
    _again(70, "FETCH_SESSION_ID_NOT_FOUND", "start a new fetch session: the broker dropped this one"),
    _again(71, "INVALID_FETCH_SESSION_EPOCH", "start a new fetch session: the two sides lost step"),
    _moved(72, "LISTENER_NOT_FOUND", "add the listener to the leader, if trying again does not help"),
    _final(73, "TOPIC_DELETION_DISABLED", "set delete.topic.enable on the broker"),
    _moved(74, "FENCED_LEADER_EPOCH", "refresh metadata: the leader has changed"),
    _moved(75, "UNKNOWN_LEADER_EPOCH", "try again: this broker does not know the new leader yet"),
    _final(76, "UNSUPPORTED_COMPRESSION_TYPE", "use a codec that both sides have; zstd needs Produce v7 and Fetch v10"),
    _final(77, "STALE_BROKER_EPOCH", "nothing to do: the broker was restarted and registers anew"),
    _again(78, "OFFSET_NOT_AVAILABLE", "try again: the new leader does not know its high watermark yet"),
    _final(79, "MEMBER_ID_REQUIRED", "join again with the member id in the answer"),
    _again(80, "PREFERRED_LEADER_NOT_AVAILABLE", "start the preferred replica's broker"),
    _final(81, "GROUP_MAX_SIZE_REACHED", "raise group.max.size or run fewer members"),
    _final(82, "FENCED_INSTANCE_ID", "give each process a group.instance.id of its own: another has this one"),
    _again(83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", "start a broker that has a replica in sync"),
    _again(84, "ELECTION_NOT_NEEDED", "nothing to do: the leader is the preferred one already"),
    _final(85, "NO_REASSIGNMENT_IN_PROGRESS", "nothing to do: the partition is not being moved"),
    _final(86, "GROUP_SUBSCRIBED_TO_TOPIC", "unsubscribe the group from the topic first"),
    _final(87, "INVALID_RECORD", "mend the record: the topic refuses its key, time or format"),
    _again(88, "UNSTABLE_OFFSET_COMMIT", "try again: an open transaction holds the offset"),
    _again(89, "THROTTLING_QUOTA_EXCEEDED", "try again later and more slowly, or raise the quota"),
    _final(90, "PRODUCER_FENCED", "stop this producer: a newer one has its transactional id"),
    _final(91, "RESOURCE_NOT_FOUND", "check the name: there is no such user, topic or setting"),
    _final(92, "DUPLICATE_RESOURCE", "name each resource once in a request"),
    _final(
        93, "UNACCEPTABLE_CREDENTIAL", "choose credentials within the broker's limits (iterations, mechanism, name)"
    ),
    _final(94, "INCONSISTENT_VOTER_SET", "give all controllers the same voters"),
    _final(95, "INVALID_UPDATE_VERSION", "ask for a feature level that the brokers support"),
    _final(96, "FEATURE_UPDATE_FAILED", "look at the controller's log for why it could not change the feature"),
    _final(97, "PRINCIPAL_DESERIALIZATION_FAILURE", "give brokers and controllers the same principal.builder.class"),
    _final(98, "SNAPSHOT_NOT_FOUND", "nothing to do: the replica asks for a newer snapshot"),
    _final(99, "POSITION_OUT_OF_RANGE", "nothing to do: the replica starts the snapshot anew"),
    _moved(100, "UNKNOWN_TOPIC_ID", "refresh metadata: the topic was deleted, and perhaps created anew"),
    _final(101, "DUPLICATE_BROKER_REGISTRATION", "give each broker a node.id of its own"),
    _final(102, "BROKER_ID_NOT_REGISTERED", "start the broker with that id, or name another"),
    _moved(103, "INCONSISTENT_TOPIC_ID", "refresh metadata: the topic was created anew"),
    _final(104, "INCONSISTENT_CLUSTER_ID", "connect to the cluster that this state belongs to"),
    _final(105, "TRANSACTIONAL_ID_NOT_FOUND", "check the transactional id, or begin a transaction with it"),
    _again(106, "FETCH_SESSION_TOPIC_ID_ERROR", "start a new fetch session: topics by name and by id do not mix"),
    _final(107, "INELIGIBLE_REPLICA", "wait until the replica's broker is neither fenced nor shutting down"),
    _final(108, "NEW_LEADER_ELECTED", "nothing to do: the change led to an election"),
    _final(109, "OFFSET_MOVED_TO_TIERED_STORAGE", "read it from a broker with tiered storage, as a consumer"),
    _final(110, "FENCED_MEMBER_EPOCH", "join again with member epoch 0: the group has given this member up"),
    _final(
        111, "UNRELEASED_INSTANCE_ID", "stop the other member with this instance id, or wait for its session to end"
    ),
    _final(112, "UNSUPPORTED_ASSIGNOR", "use an assignor that the broker has (group.consumer.assignors)"),
    _final(113, "STALE_MEMBER_EPOCH", "take the member epoch of the next heartbeat and try again"),
    _final(114, "MISMATCHED_ENDPOINT_TYPE", "ask brokers at broker addresses and controllers at theirs"),
    _final(115, "UNSUPPORTED_ENDPOINT_TYPE", "ask for brokers (1) or controllers (2)"),
    _final(116, "UNKNOWN_CONTROLLER_ID", "name a controller that is in the quorum"),
    _final(117, "UNKNOWN_SUBSCRIPTION_ID", "ask for the telemetry subscription again"),
    _final(118, "TELEMETRY_TOO_LARGE", "push fewer metrics at a time"),
    _final(119, "INVALID_REGISTRATION", "look at the controller's log for what is wrong with the broker"),
    _final(120, "TRANSACTION_ABORTABLE", "abort the transaction and begin it again"),
    _final(
        121, "INVALID_RECORD_STATE", "do not acknowledge it again: the share group's record is not this member's now"
    ),
    _again(122, "SHARE_SESSION_NOT_FOUND", "start a new share session: the broker dropped this one"),
    _again(123, "INVALID_SHARE_SESSION_EPOCH", "start a new share session: the two sides lost step"),
    _final(124, "FENCED_STATE_EPOCH", "nothing to do: a newer share coordinator has taken over"),
    _final(125, "INVALID_VOTER_KEY", "check the voter's id and directory id"),
    _final(126, "DUPLICATE_VOTER", "nothing to do: the voter is in the quorum already"),
    _final(127, "VOTER_NOT_FOUND", "name a voter that is in the quorum"),
    _final(128, "INVALID_REGULAR_EXPRESSION", "mend the pattern: brokers use RE2 syntax"),
    _final(129, "REBOOTSTRAP_REQUIRED", "start again from the bootstrap servers"),
    _final(130, "STREAMS_INVALID_TOPOLOGY", "mend the topology: its topics do not fit together"),
    _final(131, "STREAMS_INVALID_TOPOLOGY_EPOCH", "start members with the topology epoch of the group"),
    _final(132, "STREAMS_TOPOLOGY_FENCED", "upgrade this member: the group has a newer topology"),
    _again(133, "SHARE_SESSION_LIMIT_REACHED", "try again later, or raise group.share.max.share.sessions"),
    _final(134, "GROUP_DELETION_FAILED", "mend what the broker's message says, and delete the group again"),
    _final(135, "STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED", "look at the broker's log for what is wrong with it"),
    _final(136, "CONTROLLER_ID_NOT_REGISTERED", "name a controller that is registered"),
)

ROWS: Final[dict[int, ErrorRow]] = {each.code: each for each in _ROWS}
_BY_NAME: Final = {each.name: each.code for each in _ROWS}
_UNKNOWN: Final = ROWS[-1]


def row(code: int) -> ErrorRow:
    """The row of a code; an unlisted code gets UNKNOWN_SERVER_ERROR's row with its own number."""
    return ROWS.get(code) or _UNKNOWN._replace(code=code)


def code_of(name: str) -> int:
    """The number of an error name. Raises KeyError."""
    return _BY_NAME[name]


def error_for(code: int, what: str, *, detail: str | None = None, **where: Unpack[Where]) -> ServerError:
    """The error for a code. ``what`` names the failed action; ``detail`` is the broker's own text, if it sent one."""
    raised = FencedError if code in FENCED else OffsetOutOfRange if code == OFFSET_OUT_OF_RANGE else ServerError
    return server_error(row(code), _KIND_OF.get(code), detail or "", doing=what, raised=raised, **where)


# The server's codes by name.
class ErrorCode(enum.IntEnum):
    """Kafka protocol guide, "Error Codes"; only those a node of ours sends."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    OFFSET_OUT_OF_RANGE = 1
    CORRUPT_MESSAGE = 2
    UNKNOWN_TOPIC_OR_PARTITION = 3
    LEADER_NOT_AVAILABLE = 5
    NOT_LEADER_OR_FOLLOWER = 6
    MESSAGE_TOO_LARGE = 10
    OFFSET_METADATA_TOO_LARGE = 12
    COORDINATOR_LOAD_IN_PROGRESS = 14
    COORDINATOR_NOT_AVAILABLE = 15
    INVALID_TOPIC_EXCEPTION = 17
    RECORD_LIST_TOO_LARGE = 18
    INVALID_REQUIRED_ACKS = 21
    ILLEGAL_GENERATION = 22
    INCONSISTENT_GROUP_PROTOCOL = 23
    INVALID_GROUP_ID = 24
    UNKNOWN_MEMBER_ID = 25
    INVALID_SESSION_TIMEOUT = 26
    REBALANCE_IN_PROGRESS = 27
    TOPIC_AUTHORIZATION_FAILED = 29
    GROUP_AUTHORIZATION_FAILED = 30
    INVALID_TIMESTAMP = 32
    UNSUPPORTED_VERSION = 35
    TOPIC_ALREADY_EXISTS = 36
    INVALID_PARTITIONS = 37
    INVALID_REPLICATION_FACTOR = 38
    INVALID_REPLICA_ASSIGNMENT = 39
    INVALID_CONFIG = 40
    INVALID_REQUEST = 42
    UNSUPPORTED_FOR_MESSAGE_FORMAT = 43
    POLICY_VIOLATION = 44
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45
    INVALID_PRODUCER_EPOCH = 47
    INVALID_TXN_STATE = 48
    INVALID_PRODUCER_ID_MAPPING = 49
    INVALID_TRANSACTION_TIMEOUT = 50
    CONCURRENT_TRANSACTIONS = 51
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53
    SECURITY_DISABLED = 54
    OPERATION_NOT_ATTEMPTED = 55
    KAFKA_STORAGE_ERROR = 56
    LOG_DIR_NOT_FOUND = 57
    NON_EMPTY_GROUP = 68
    GROUP_ID_NOT_FOUND = 69
    FETCH_SESSION_ID_NOT_FOUND = 70
    INVALID_FETCH_SESSION_EPOCH = 71
    FENCED_LEADER_EPOCH = 74
    UNKNOWN_LEADER_EPOCH = 75
    UNSUPPORTED_COMPRESSION_TYPE = 76
    MEMBER_ID_REQUIRED = 79
    GROUP_MAX_SIZE_REACHED = 81
    FENCED_INSTANCE_ID = 82
    ELECTION_NOT_NEEDED = 84
    NO_REASSIGNMENT_IN_PROGRESS = 85
    GROUP_SUBSCRIBED_TO_TOPIC = 86
    INVALID_RECORD = 87
    UNSTABLE_OFFSET_COMMIT = 88
    THROTTLING_QUOTA_EXCEEDED = 89
    PRODUCER_FENCED = 90
    RESOURCE_NOT_FOUND = 91
    UNKNOWN_TOPIC_ID = 100
    TRANSACTIONAL_ID_NOT_FOUND = 105
    FETCH_SESSION_TOPIC_ID_ERROR = 106
    FENCED_MEMBER_EPOCH = 110
    UNRELEASED_INSTANCE_ID = 111
    UNSUPPORTED_ASSIGNOR = 112
    STALE_MEMBER_EPOCH = 113
    UNSUPPORTED_ENDPOINT_TYPE = 115
    TRANSACTION_ABORTABLE = 120
    INVALID_REGULAR_EXPRESSION = 128
    REBOOTSTRAP_REQUIRED = 129
