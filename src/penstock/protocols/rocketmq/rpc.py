"""Requests and answers around a method's header and body: built and read, refusals included.

What must not live here: framing, retries, what codes in answers mean.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final, Generic, TypeVar

from penstock._dataclasses import dataclass
from penstock.errors import ProtocolViolation
from penstock.protocols.rocketmq.command import ONE_WAY, RESPONSE, VERSION, RemotingCommand, encode, framed
from penstock.protocols.rocketmq.error_codes import Code, error_of
from penstock.protocols.rocketmq.framing import command_of
from penstock.protocols.rocketmq.messages import read_fields, write_body, write_fields
from penstock.protocols.rocketmq.methods import Method
from penstock.protocols.rocketmq.signing import Account, signed
from penstock.seams.channel import Outgoing
from penstock.seams.framing import Buffer, Buffers, Frame

__all__ = [
    "UNSIGNED_KEY",
    "UNSIGNED_KEY_VERSION",
    "Answered",
    "answer",
    "read_answer",
    "read_request",
    "refusal",
    "request",
]

Req = TypeVar("Req")
Ans = TypeVar("Ans")

UNSIGNED_KEY: Final = "_UNIQUE_KEY_QUERY"
UNSIGNED_KEY_VERSION: Final = 399
_QUERY_MESSAGE: Final = 12


@dataclass(frozen=True, slots=True)
class Answered(Generic[Ans]):
    """An answer: its code, its header, and the whole command with the body in it."""

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
    """Return a request, to be framed with the number a connection chooses. Raises UsageError.

    ``body`` is bytes, or a declared body. ``extra`` are further ext fields. With an ``account`` the request is signed.
    """
    content = body if isinstance(body, Buffer) else write_body(body)
    fields: dict[str, str] = write_fields(header, letters=method.letters)
    if extra:
        fields |= extra
    version = VERSION
    if account is not None:
        # Brokers differ in whether this field is signed, but agree that it is not for whoever says an old version.
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
    """Read the answer to ``method``. A code that is not in ``accept`` raises ServerError, with where it happened.

    Raises ProtocolViolation for a header that is not as declared.
    """
    command = command_of(frame)
    if command.code not in accept:
        raise error_of(command.code, command.remark, topic=topic, partition=partition, offset=offset, node=node)
    try:
        return Answered(command.code, read_fields(method.answer, command.fields), command)
    except ProtocolViolation as error:
        error.topic, error.partition, error.node = topic, partition, node
        raise


def read_request(method: Method[Req, Ans], command: RemotingCommand) -> Req:
    """Return the header of a request, which some send in the form that is not its method's: by names or by letters.

    Raises ProtocolViolation that names the field.
    """
    return read_fields(method.request, command.fields, letters=method.letters)


def answer(
    asked: RemotingCommand, header: object = None, body: object = b"", *, code: int = Code.SUCCESS,
    remark: str | None = None, extra: Mapping[str, str] | None = None,
) -> Buffers:  # fmt: skip
    """Return the framed answer to a request, in its number and form."""
    content = body if isinstance(body, Buffer) else write_body(body)
    fields = {} if header is None else write_fields(header)
    if extra:
        fields |= extra
    return encode(RemotingCommand(code, asked.opaque, RESPONSE, fields, content, remark, compact=asked.compact))


def refusal(asked: RemotingCommand, code: int, remark: str) -> Buffers:
    """Return the framed answer to a request that was not done."""
    return answer(asked, code=code, remark=remark)
