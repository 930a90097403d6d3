"""What went wrong with the cluster, in the words that fronts have codes for."""

from __future__ import annotations

from penstock.errors import (
    BatchTooLarge,
    ConnectionLost,
    CorruptBatch,
    ErrorKind,
    LocalError,
    PenstockError,
    ProtocolViolation,
    RequestTimeout,
    ServerError,
    StoreError,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
)
from penstock.model import Partition
from penstock.protocols.tubemq.error_codes import Code

__all__ = ["as_store_says"]

_FORBIDDEN = frozenset({Code.CERTIFICATE_FAILURE, Code.CONSUME_GROUP_FORBIDDEN, Code.CONSUME_CONTENT_FORBIDDEN})
_NO_RIGHT = "Let the node in at the masters: its groups are those of reader_group, its user that of user and password"


def as_store_says(error: PenstockError, where: Partition | None = None) -> PenstockError:
    """The same as an error of an enode. ``where`` is in this node's numbers: those of the cluster mean nothing here."""
    made: PenstockError
    if isinstance(error, StoreError | Unsupported | UpstreamLost | CorruptBatch):
        made = error
    elif isinstance(error, ConnectionLost | RequestTimeout | ProtocolViolation):
        made = UpstreamLost(f"the TubeMQ cluster did not answer: {error.message}", node=error.node)
    elif isinstance(error, ServerError):
        made = _refusal(error)
    elif isinstance(error, LocalError):
        made = Unsupported(error.message, topic=error.topic, hint=error.hint)
    else:
        made = StoreError(error.message, node=error.node, hint=error.hint)
    if where is not None:
        made.topic, made.partition = where.topic, where.id
    if made is not error:
        made.__cause__ = error
    return made


def _refusal(error: ServerError) -> PenstockError:
    words = f"TubeMQ says {error.code} {error.name}: {error.message}"
    if error.kind is ErrorKind.UNKNOWN_TOPIC:
        return UnknownTopic(words, topic=error.topic)
    if error.code == Code.PARAMETER_MSG_OVER_MAX_LENGTH:
        return BatchTooLarge(words, topic=error.topic, hint="Raise the topic's maxMsgSizeInMB at the masters")
    if error.code in _FORBIDDEN:
        return Unsupported(words, topic=error.topic, hint=_NO_RIGHT)
    return UpstreamLost(words, node=error.node) if error.retriable else StoreError(words, node=error.node)
