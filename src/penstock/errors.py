"""The error tree: two trunks, LocalError (you did something wrong) and RemoteError (the peer did something wrong).

Every error can say where it happened (topic, partition, offset, node) and what to do next (hint). Error codes of a
protocol are rows in that protocol's folder; they are raised as ServerError.
"""

from __future__ import annotations

import enum

__all__ = [
    "BatchTooLarge",
    "Closed",
    "ConfigError",
    "ConnectionLost",
    "CorruptBatch",
    "DeserializationError",
    "ErrorKind",
    "FencedError",
    "FencedLeaderEpoch",
    "FirstContactTimeout",
    "InvalidPartitionCount",
    "InvalidTopicConfig",
    "InvalidTopicName",
    "LocalError",
    "LogOffsetOutOfRange",
    "LogTruncated",
    "MissingExtra",
    "OffsetOutOfRange",
    "OutOfOrderSequence",
    "OutcomeUnknown",
    "OutsideTransaction",
    "PenstockError",
    "ProtocolViolation",
    "RemoteError",
    "RequestTimeout",
    "ServerError",
    "StaleProducerEpoch",
    "StoreError",
    "TopicExists",
    "TopicRecreated",
    "UnknownLeaderEpoch",
    "UnknownPartition",
    "UnknownTopic",
    "Unsupported",
    "UpstreamLost",
    "UsageError",
    "WriteFailed",
    "shown_id",
]


class PenstockError(Exception):
    """Root of every error that penstock raises on purpose.

    ``topic``, ``partition``, ``offset`` and ``node`` are None where unknown; ``hint`` says what to do next.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        node: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.node = node
        self.hint = hint

    retriable = False

    def __str__(self) -> str:
        where = ", ".join(
            f"{name} {value}"
            for name, value in (
                ("topic", self.topic),
                ("partition", self.partition),
                ("offset", self.offset),
                ("node", self.node),
            )
            if value is not None
        )
        text = f"{self.message} ({where})" if where else self.message
        return f"{text}. {self.hint}" if self.hint else text

    def __reduce__(self) -> tuple[object, ...]:
        # Errors cross process borders (Spark workers pickle them); keyword-only fields need help.
        return _rebuild, (type(self), dict(self.__dict__), self.args)


def shown_id(topic_id: bytes) -> str:
    """A topic id in the form that Kafka's tools print."""
    import base64

    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def _rebuild(kind: type[PenstockError], state: dict[str, object], args: tuple[object, ...]) -> PenstockError:
    error = kind.__new__(kind)
    error.args = args
    error.__dict__.update(state)
    return error


class LocalError(PenstockError):
    """The caller, the configuration or the local disk did something that cannot work."""


class ConfigError(LocalError, ValueError):
    """An option is unknown, out of bounds or contradicts another one."""


class MissingExtra(LocalError, ImportError):
    """A feature needs an extra of the package that is not installed; the message names the extra.

    ``name`` is the module that was not found.
    """

    def __init__(self, message: str, *, name: str, hint: str | None = None) -> None:
        super().__init__(message, hint=hint)
        self.msg, self.name = message, name


class UsageError(LocalError):
    """A call came in the wrong order or has invalid arguments."""


class DeserializationError(LocalError):
    """Your deserializer refused a key or a value; ``__cause__`` is the exception that it raised.

    The record is there and can be read as bytes; topic, partition and offset say which record it is.
    """


class Closed(UsageError):
    """The object was closed before the call, or while it waited."""


class StoreError(LocalError):
    """The log of a node refused an operation, or could not be opened, read or written (disk, lock, damage)."""


class UnknownTopic(StoreError):
    """There is no topic of that name or id."""


class UnknownPartition(StoreError):
    """The topic exists, the partition does not."""


class TopicExists(StoreError):
    """A topic of that name, or of one that differs only in "." and "_", exists already."""


class InvalidTopicName(StoreError):
    """A name that cannot be a directory or a metric: see ``penstock.store.catalog``."""


class InvalidPartitionCount(StoreError):
    """Fewer than one partition, more than the store keeps, or fewer than the topic has."""


class InvalidTopicConfig(StoreError):
    """A topic option that the log itself applies has a value that it cannot apply."""


class LogOffsetOutOfRange(StoreError):
    """An offset below ``start_offset`` (deleted) or above ``end_offset`` (not written yet)."""

    def __init__(self, message: str, *, offset: int, start: int, end: int) -> None:
        super().__init__(f"{message}: the log has offsets {start} to {end}", offset=offset)
        self.start_offset = start
        self.end_offset = end


class BatchTooLarge(StoreError):
    """A batch that does not fit into a whole segment (topic option ``segment.bytes``)."""


class OutOfOrderSequence(StoreError):
    """An idempotent producer's batch is neither the next one nor one of its last five: a batch between is missing."""


class StaleProducerEpoch(StoreError):
    """A newer instance of this producer has written already; this one is fenced."""


class OutsideTransaction(StoreError):
    """A producer wrote outside of the transaction that it has open in this partition."""


class FencedLeaderEpoch(StoreError):
    """The caller's leader epoch is over, or an append names an epoch that is not the log's current one."""


class UnknownLeaderEpoch(StoreError):
    """The caller's leader epoch has not begun here."""


class WriteFailed(StoreError):
    """The disk refused to write or to sync (full, I/O error); the log is as it was before the call.

    After a failed *sync* the content of the disk is unknown, so the log takes no more appends until it is reopened.
    """


class Unsupported(LocalError):
    """The log behind the node can never do what was asked: see ``interfaces.enode``."""


class RemoteError(PenstockError):
    """The peer (or the network to it) did something wrong."""


class ProtocolViolation(RemoteError):
    """Bytes that break the protocol: a wrong length, an unknown type, a wrong correlation id."""


class CorruptBatch(RemoteError):
    """Records that cannot be decoded: their checksum, lengths, counts or compression are wrong.

    ``offset`` is the first lost offset. ``next_offset`` is where reading can continue (None: unknown). ``records`` is
    about how many records are lost, and ``raw`` holds their bytes as the log has them.
    """

    next_offset: int | None = None
    records: int = 1
    raw: bytes = b""


class ConnectionLost(RemoteError):
    """No connection could be made, or it broke. Requests in flight may or may not have taken effect."""

    retriable = True


class FirstContactTimeout(ConnectionLost):
    """No server has answered this client since its first use, for ``first_contact_timeout_ms``.

    The message lists the addresses that were tried and what happened at each: it is more likely that they are wrong
    than that all servers are down. All waiting calls fail without another attempt; a later call starts a new timeout.
    """


class RequestTimeout(RemoteError):
    """The peer did not answer in time; the request may or may not have taken effect."""

    retriable = True


class ErrorKind(enum.Enum):
    """The meaning of a server's error code in any protocol; ``OTHER`` covers the codes that need no distinction."""

    OTHER = "other"
    TOO_LARGE = "too_large"
    """The batch is larger than the server accepts; smaller batches may pass."""
    RECORD_TOO_LARGE = "record_too_large"
    """A single record is larger than the server accepts."""
    OFFSET_OUT_OF_RANGE = "offset_out_of_range"
    NOT_LEADER = "not_leader"
    UNKNOWN_TOPIC = "unknown_topic"
    TOPIC_EXISTS = "topic_exists"
    TOO_FEW_NODES = "too_few_nodes"
    """The topic asks for more replicas than there are nodes."""
    NOT_AUTHORIZED = "not_authorized"
    FENCED = "fenced"
    """Another process took this member's or producer's identity."""
    NOT_A_MEMBER = "not_a_member"
    """The group continues without this member, or is rebalancing: the member has to join again."""
    WRONG_TRANSACTION_STATE = "wrong_transaction_state"
    """The transaction's state does not allow this call; perhaps it was ended another way."""
    TRANSACTION_TIMEOUT_TOO_LONG = "transaction_timeout_too_long"
    THROTTLED = "throttled"
    UNAVAILABLE = "unavailable"
    UNSUPPORTED = "unsupported"


class UpstreamLost(RemoteError):
    """The log behind the node is unreachable or did not answer; the request may or may not have taken effect.

    Neither the client nor the disk is at fault. Servers answer it with a code that their clients retry.
    """

    retriable = True


class OutcomeUnknown(UpstreamLost):
    """The log behind the node took a write and did not answer in time: it may be stored, now or later.

    Servers answer it with a code that no client retries, because nothing there would deduplicate a repeated message.
    """

    retriable = False


class ServerError(RemoteError):
    """The peer answered with an error code of its protocol.

    ``code`` and ``name`` are the protocol's own; ``kind`` is their meaning in any protocol.
    """

    kind: ErrorKind = ErrorKind.OTHER

    def __init__(
        self,
        message: str,
        *,
        code: int,
        name: str,
        kind: ErrorKind | None = None,
        retriable: bool = False,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        node: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(message, topic=topic, partition=partition, offset=offset, node=node, hint=hint)
        self.code = code
        self.name = name
        self.kind = type(self).kind if kind is None else kind
        self.retriable = retriable


class OffsetOutOfRange(ServerError):
    """The requested offset was deleted by retention, or does not exist yet."""

    kind = ErrorKind.OFFSET_OUT_OF_RANGE


class LogTruncated(OffsetOutOfRange):
    """Records that were read are no longer in the log: its end was cut off.

    Other records may now have their offsets. This happens when a replica that lacked some records became leader (an
    unclean election), or when a server came back without its disk. Up to ``parted_at`` the log is unchanged.
    """

    def __init__(
        self,
        message: str,
        *,
        parted_at: int,
        code: int,
        name: str,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        node: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(
            message, code=code, name=name, topic=topic, partition=partition, offset=offset, node=node, hint=hint
        )
        self.parted_at = parted_at


class TopicRecreated(OffsetOutOfRange):
    """The topic was deleted and another one has its name: offsets of the old topic mean nothing in the new one.

    ``old_id`` and ``new_id`` are the 16 bytes of the topic ids; the message shows them as Kafka's tools do.
    """

    def __init__(
        self,
        message: str,
        *,
        old_id: bytes,
        new_id: bytes,
        code: int,
        name: str,
        topic: str | None = None,
        partition: int | None = None,
        offset: int | None = None,
        node: str | None = None,
        hint: str | None = None,
    ) -> None:
        super().__init__(
            message, code=code, name=name, topic=topic, partition=partition, offset=offset, node=node, hint=hint
        )
        self.old_id = old_id
        self.new_id = new_id


class FencedError(ServerError):
    """Another process took this member's or producer's identity; this one must stop."""

    kind = ErrorKind.FENCED
