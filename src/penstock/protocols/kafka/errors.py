"""Kafka's error codes as rows, and how a code becomes one of our errors.

Source: Kafka protocol guide, "Error Codes" (4.3). A code that is not listed is treated as UNKNOWN_SERVER_ERROR and
keeps its number: a newer broker must not break an older client.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.errors import FencedError, OffsetOutOfRange, ServerError


class ErrorRow(NamedTuple):
    """One code: its name, whether trying again can help, what to ask anew before, and what a person can do."""

    code: int
    name: str
    retriable: bool
    refresh_metadata: bool
    rediscover_coordinator: bool
    advice: str


_T, _F = True, False

# code, name, retriable, refresh metadata, find the coordinator again, advice
_ROWS = (
    ErrorRow(-1, "UNKNOWN_SERVER_ERROR", _F, _F, _F, "look at the broker's log: it hit an error it has no code for"),
    ErrorRow(0, "NONE", _F, _F, _F, "nothing to do"),
    ErrorRow(
        1,
        "OFFSET_OUT_OF_RANGE",
        _F,
        _F,
        _F,
        "the log begins later (retention) or ends earlier: seek, or set auto_offset_reset",
    ),
    ErrorRow(
        2,
        "CORRUPT_MESSAGE",
        _T,
        _F,
        _F,
        "a batch was damaged on its way or on disk: produce it again, or check the broker's disk",
    ),
    ErrorRow(
        3, "UNKNOWN_TOPIC_OR_PARTITION", _T, _T, _F, "create the topic, or check its name and the partition number"
    ),
    ErrorRow(4, "INVALID_FETCH_SIZE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(5, "LEADER_NOT_AVAILABLE", _T, _T, _F, "an election is going on: try again shortly"),
    ErrorRow(6, "NOT_LEADER_OR_FOLLOWER", _T, _T, _F, "refresh metadata and ask the new leader"),
    ErrorRow(
        7, "REQUEST_TIMED_OUT", _T, _F, _F, "the broker could not finish in time: try again, or raise the timeout"
    ),
    ErrorRow(8, "BROKER_NOT_AVAILABLE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(9, "REPLICA_NOT_AVAILABLE", _T, _T, _F, "try again shortly"),
    ErrorRow(10, "MESSAGE_TOO_LARGE", _F, _F, _F, "raise max.message.bytes of the topic or send smaller batches"),
    ErrorRow(11, "STALE_CONTROLLER_EPOCH", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(
        12, "OFFSET_METADATA_TOO_LARGE", _F, _F, _F, "shorten the text beside the offset (offset.metadata.max.bytes)"
    ),
    ErrorRow(13, "NETWORK_EXCEPTION", _T, _F, _F, "try again shortly"),
    ErrorRow(
        14, "COORDINATOR_LOAD_IN_PROGRESS", _T, _F, _F, "the coordinator is loading its groups: try again shortly"
    ),
    ErrorRow(15, "COORDINATOR_NOT_AVAILABLE", _T, _F, _T, "no coordinator yet: try again shortly"),
    ErrorRow(16, "NOT_COORDINATOR", _T, _F, _T, "find the coordinator again"),
    ErrorRow(
        17,
        "INVALID_TOPIC_EXCEPTION",
        _F,
        _F,
        _F,
        "use 1 to 249 letters, digits, dots, underscores and dashes; internal topics cannot be written",
    ),
    ErrorRow(18, "RECORD_LIST_TOO_LARGE", _F, _F, _F, "send smaller batches or raise segment.bytes"),
    ErrorRow(19, "NOT_ENOUGH_REPLICAS", _T, _F, _F, "too few replicas are in sync: wait, or lower min.insync.replicas"),
    ErrorRow(
        20,
        "NOT_ENOUGH_REPLICAS_AFTER_APPEND",
        _T,
        _F,
        _F,
        "stored on too few replicas; sending it again may duplicate it",
    ),
    ErrorRow(21, "INVALID_REQUIRED_ACKS", _F, _F, _F, "use acks 0, 1 or -1"),
    ErrorRow(22, "ILLEGAL_GENERATION", _F, _F, _F, "the group went on without this member: join again"),
    ErrorRow(
        23,
        "INCONSISTENT_GROUP_PROTOCOL",
        _F,
        _F,
        _F,
        "all members need a common assignor and the protocol type 'consumer'",
    ),
    ErrorRow(24, "INVALID_GROUP_ID", _F, _F, _F, "give the group a name"),
    ErrorRow(25, "UNKNOWN_MEMBER_ID", _F, _F, _F, "this member was removed (session timeout?): join again"),
    ErrorRow(
        26, "INVALID_SESSION_TIMEOUT", _F, _F, _F, "choose a session timeout within group.min/max.session.timeout.ms"
    ),
    ErrorRow(27, "REBALANCE_IN_PROGRESS", _F, _F, _F, "join again"),
    ErrorRow(28, "INVALID_COMMIT_OFFSET_SIZE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(29, "TOPIC_AUTHORIZATION_FAILED", _F, _F, _F, "ask for READ or WRITE on the topic"),
    ErrorRow(30, "GROUP_AUTHORIZATION_FAILED", _F, _F, _F, "ask for READ on the group"),
    ErrorRow(31, "CLUSTER_AUTHORIZATION_FAILED", _F, _F, _F, "ask for the cluster permission"),
    ErrorRow(32, "INVALID_TIMESTAMP", _F, _F, _F, "the record's time is outside what the topic accepts"),
    ErrorRow(33, "UNSUPPORTED_SASL_MECHANISM", _F, _F, _F, "use one of the mechanisms the broker enables"),
    ErrorRow(34, "ILLEGAL_SASL_STATE", _F, _F, _F, "authenticate first"),
    ErrorRow(35, "UNSUPPORTED_VERSION", _F, _F, _F, "the peer is too old or too new for this request"),
    ErrorRow(36, "TOPIC_ALREADY_EXISTS", _F, _F, _F, "it is there already"),
    ErrorRow(37, "INVALID_PARTITIONS", _F, _F, _F, "ask for at least one partition, and more than there are"),
    ErrorRow(38, "INVALID_REPLICATION_FACTOR", _F, _F, _F, "there are fewer brokers than replicas asked for"),
    ErrorRow(39, "INVALID_REPLICA_ASSIGNMENT", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(40, "INVALID_CONFIG", _F, _F, _F, "check the setting's name and value"),
    ErrorRow(41, "NOT_CONTROLLER", _T, _F, _F, "ask the controller"),
    ErrorRow(42, "INVALID_REQUEST", _F, _F, _F, "the request contradicts itself"),
    ErrorRow(
        43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", _F, _F, _F, "see the Kafka protocol guide for what the broker means"
    ),
    ErrorRow(44, "POLICY_VIOLATION", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(45, "OUT_OF_ORDER_SEQUENCE_NUMBER", _F, _F, _F, "batches of this producer were lost or reordered"),
    ErrorRow(46, "DUPLICATE_SEQUENCE_NUMBER", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(47, "INVALID_PRODUCER_EPOCH", _F, _F, _F, "a newer producer has this id"),
    ErrorRow(48, "INVALID_TXN_STATE", _F, _F, _F, "end the open transaction first"),
    ErrorRow(49, "INVALID_PRODUCER_ID_MAPPING", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(50, "INVALID_TRANSACTION_TIMEOUT", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(51, "CONCURRENT_TRANSACTIONS", _T, _F, _F, "the previous transaction is still ending: try again"),
    ErrorRow(
        52, "TRANSACTION_COORDINATOR_FENCED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"
    ),
    ErrorRow(
        53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", _F, _F, _F, "transactions are not available for this id here"
    ),
    ErrorRow(54, "SECURITY_DISABLED", _F, _F, _F, "the broker has no authorizer"),
    ErrorRow(55, "OPERATION_NOT_ATTEMPTED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(56, "KAFKA_STORAGE_ERROR", _T, _T, _F, "try again shortly"),
    ErrorRow(57, "LOG_DIR_NOT_FOUND", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(58, "SASL_AUTHENTICATION_FAILED", _F, _F, _F, "check user and password"),
    ErrorRow(59, "UNKNOWN_PRODUCER_ID", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(60, "REASSIGNMENT_IN_PROGRESS", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(
        61, "DELEGATION_TOKEN_AUTH_DISABLED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"
    ),
    ErrorRow(62, "DELEGATION_TOKEN_NOT_FOUND", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(
        63, "DELEGATION_TOKEN_OWNER_MISMATCH", _F, _F, _F, "see the Kafka protocol guide for what the broker means"
    ),
    ErrorRow(
        64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"
    ),
    ErrorRow(
        65,
        "DELEGATION_TOKEN_AUTHORIZATION_FAILED",
        _F,
        _F,
        _F,
        "see the Kafka protocol guide for what the broker means",
    ),
    ErrorRow(66, "DELEGATION_TOKEN_EXPIRED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(67, "INVALID_PRINCIPAL_TYPE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(68, "NON_EMPTY_GROUP", _F, _F, _F, "stop the group's members first"),
    ErrorRow(69, "GROUP_ID_NOT_FOUND", _F, _F, _F, "there is no such group"),
    ErrorRow(70, "FETCH_SESSION_ID_NOT_FOUND", _T, _F, _F, "start a new fetch session"),
    ErrorRow(71, "INVALID_FETCH_SESSION_EPOCH", _T, _F, _F, "start a new fetch session"),
    ErrorRow(72, "LISTENER_NOT_FOUND", _T, _T, _F, "try again shortly"),
    ErrorRow(73, "TOPIC_DELETION_DISABLED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(74, "FENCED_LEADER_EPOCH", _T, _T, _F, "refresh metadata"),
    ErrorRow(75, "UNKNOWN_LEADER_EPOCH", _T, _T, _F, "the broker's metadata is older than yours: try again"),
    ErrorRow(76, "UNSUPPORTED_COMPRESSION_TYPE", _F, _F, _F, "use a codec that this request version has"),
    ErrorRow(77, "STALE_BROKER_EPOCH", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(78, "OFFSET_NOT_AVAILABLE", _T, _F, _F, "the new leader is catching up: try again"),
    ErrorRow(79, "MEMBER_ID_REQUIRED", _F, _F, _F, "join again with the member id given"),
    ErrorRow(80, "PREFERRED_LEADER_NOT_AVAILABLE", _T, _F, _F, "try again shortly"),
    ErrorRow(81, "GROUP_MAX_SIZE_REACHED", _F, _F, _F, "the group is full (group.max.size)"),
    ErrorRow(82, "FENCED_INSTANCE_ID", _F, _F, _F, "another process uses the same group.instance.id: stop one of them"),
    ErrorRow(83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", _T, _F, _F, "try again shortly"),
    ErrorRow(84, "ELECTION_NOT_NEEDED", _T, _F, _F, "the leader is the preferred one already"),
    ErrorRow(85, "NO_REASSIGNMENT_IN_PROGRESS", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(86, "GROUP_SUBSCRIBED_TO_TOPIC", _F, _F, _F, "the group still reads that topic"),
    ErrorRow(87, "INVALID_RECORD", _F, _F, _F, "the batch breaks a rule of the topic (key, timestamp, format)"),
    ErrorRow(88, "UNSTABLE_OFFSET_COMMIT", _T, _F, _F, "a transaction holds the offset: try again"),
    ErrorRow(89, "THROTTLING_QUOTA_EXCEEDED", _T, _F, _F, "slow down"),
    ErrorRow(90, "PRODUCER_FENCED", _F, _F, _F, "a newer producer has this transactional id"),
    ErrorRow(91, "RESOURCE_NOT_FOUND", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(92, "DUPLICATE_RESOURCE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(93, "UNACCEPTABLE_CREDENTIAL", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(94, "INCONSISTENT_VOTER_SET", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(95, "INVALID_UPDATE_VERSION", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(96, "FEATURE_UPDATE_FAILED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(
        97, "PRINCIPAL_DESERIALIZATION_FAILURE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"
    ),
    ErrorRow(98, "SNAPSHOT_NOT_FOUND", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(99, "POSITION_OUT_OF_RANGE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(100, "UNKNOWN_TOPIC_ID", _T, _T, _F, "refresh metadata: the topic was created anew"),
    ErrorRow(
        101, "DUPLICATE_BROKER_REGISTRATION", _F, _F, _F, "see the Kafka protocol guide for what the broker means"
    ),
    ErrorRow(102, "BROKER_ID_NOT_REGISTERED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(103, "INCONSISTENT_TOPIC_ID", _T, _T, _F, "refresh metadata"),
    ErrorRow(104, "INCONSISTENT_CLUSTER_ID", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(105, "TRANSACTIONAL_ID_NOT_FOUND", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(106, "FETCH_SESSION_TOPIC_ID_ERROR", _T, _F, _F, "start a new fetch session"),
    ErrorRow(107, "INELIGIBLE_REPLICA", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(108, "NEW_LEADER_ELECTED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(
        109, "OFFSET_MOVED_TO_TIERED_STORAGE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"
    ),
    ErrorRow(110, "FENCED_MEMBER_EPOCH", _F, _F, _F, "join again with epoch 0"),
    ErrorRow(111, "UNRELEASED_INSTANCE_ID", _F, _F, _F, "another live member has this instance id"),
    ErrorRow(112, "UNSUPPORTED_ASSIGNOR", _F, _F, _F, "use an assignor the broker has"),
    ErrorRow(113, "STALE_MEMBER_EPOCH", _F, _F, _F, "take the new member epoch and try again"),
    ErrorRow(114, "MISMATCHED_ENDPOINT_TYPE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(115, "UNSUPPORTED_ENDPOINT_TYPE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(116, "UNKNOWN_CONTROLLER_ID", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(117, "UNKNOWN_SUBSCRIPTION_ID", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(118, "TELEMETRY_TOO_LARGE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(119, "INVALID_REGISTRATION", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(120, "TRANSACTION_ABORTABLE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(121, "INVALID_RECORD_STATE", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(122, "SHARE_SESSION_NOT_FOUND", _T, _F, _F, "try again shortly"),
    ErrorRow(123, "INVALID_SHARE_SESSION_EPOCH", _T, _F, _F, "try again shortly"),
    ErrorRow(124, "FENCED_STATE_EPOCH", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(125, "INVALID_VOTER_KEY", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(126, "DUPLICATE_VOTER", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(127, "VOTER_NOT_FOUND", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(128, "INVALID_REGULAR_EXPRESSION", _F, _F, _F, "the pattern is not a valid regular expression"),
    ErrorRow(129, "REBOOTSTRAP_REQUIRED", _F, _F, _F, "start again from the bootstrap servers"),
    ErrorRow(130, "STREAMS_INVALID_TOPOLOGY", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(
        131, "STREAMS_INVALID_TOPOLOGY_EPOCH", _F, _F, _F, "see the Kafka protocol guide for what the broker means"
    ),
    ErrorRow(132, "STREAMS_TOPOLOGY_FENCED", _F, _F, _F, "see the Kafka protocol guide for what the broker means"),
    ErrorRow(133, "SHARE_SESSION_LIMIT_REACHED", _T, _F, _F, "try again shortly"),
)

ROWS: dict[int, ErrorRow] = {row.code: row for row in _ROWS}
_UNKNOWN = ROWS[-1]

NONE = 0
OFFSET_OUT_OF_RANGE = 1
FENCED = frozenset((47, 82, 90))
"""Codes that say: another process has taken this identity, stop."""


def row(code: int) -> ErrorRow:
    """The row of a code; an unlisted code gets UNKNOWN_SERVER_ERROR's row with its own number."""
    return ROWS.get(code) or _UNKNOWN._replace(code=code)


def code_of(name: str) -> int:
    """The number of an error name. Raises KeyError."""
    return _BY_NAME[name]


_BY_NAME = {each.name: each.code for each in _ROWS}


def error_for(
    code: int,
    what: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    offset: int | None = None,
    node: str | None = None,
    detail: str | None = None,
) -> ServerError:
    """The error for a code. ``what`` says what was being done; ``detail`` is the broker's own text, if it sent one."""
    found = row(code)
    kind = FencedError if code in FENCED else OffsetOutOfRange if code == OFFSET_OUT_OF_RANGE else ServerError
    said = f": {detail}" if detail else ""
    return kind(
        f"{what}: {found.name} ({code}){said}",
        code=code,
        name=found.name,
        retriable=found.retriable,
        topic=topic,
        partition=partition,
        offset=offset,
        node=node,
        hint=found.advice[0].upper() + found.advice[1:],
    )
