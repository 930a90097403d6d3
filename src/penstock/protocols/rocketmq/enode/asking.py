"""Requests of the enode's own to brokers and name servers, and what their refusals are called on this side.

What must not live here: which request is asked when.
"""

from __future__ import annotations

from collections.abc import Collection, Coroutine, Mapping, Sequence
from typing import Any, Final, TypeVar

from penstock.errors import (
    BatchTooLarge,
    ErrorKind,
    PenstockError,
    ProtocolViolation,
    ServerError,
    StoreError,
    UnknownTopic,
    Unsupported,
    UpstreamLost,
    UsageError,
)
from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.enode.brokers import Broker
from penstock.protocols.rocketmq.enode.relay import RocketRelay
from penstock.protocols.rocketmq.error_codes import Code, is_too_large
from penstock.protocols.rocketmq.methods import UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, Method
from penstock.protocols.rocketmq.rpc import Answered, read_answer, request
from penstock.seams.framing import Frame

__all__ = ["Asking"]

_OK: Final = (Code.SUCCESS,)

Req = TypeVar("Req")
Ans = TypeVar("Ans")
T = TypeVar("T")


class Asking:
    """All that the neutral form asks goes through here. Errors are those that `penstock.seams.enode.Enode` names."""

    def __init__(self, relay: RocketRelay) -> None:
        self._relay = relay

    @property
    def clusters(self) -> Mapping[str, Sequence[str]]:
        """Names of the brokers of each cluster that the name servers know."""
        return self._relay.brokers.clusters

    def masters(self) -> list[Broker]:
        """Every broker that has one, by name. Raises UpstreamLost where none is known."""
        masters = list(self._relay.brokers.masters())
        if not masters:
            raise UpstreamLost("no broker of the RocketMQ cluster is known now")
        return masters

    async def broker(
        self,
        name: str,
        method: Method[Req, Ans],
        header: Req,
        body: object = b"",
        *,
        accept: Collection[int] = _OK,
        lane: str = "neutral",
        held_s: float = 0.0,
        standby: bool = False,
        write_s: float | None = None,
    ) -> Answered[Ans]:
        """The answer of a broker's master, or with ``standby`` of whoever is there of that name.

        ``write_s``: it writes, and the answer is waited for that long (OutcomeUnknown then).
        """
        try:
            broker = self._relay.brokers.of(name, standby=standby)
        except UsageError as error:
            raise UpstreamLost(error.message, node=name) from error
        frame = await self._relay.ask(
            broker,
            request(method, header, body),
            lane=lane,
            held_s=held_s,
            timeout_s=write_s,
            writes=write_s is not None,
        )
        return _read(method, frame, accept, name)

    async def of_group(
        self,
        name: str,
        group: str,
        method: Method[Req, Ans],
        header: Req,
        *,
        accept: Collection[int] = _OK,
        lane: str = "neutral",
        held_s: float = 0.0,
        standby: bool = False,
    ) -> Answered[Ans]:
        """What is about a group; a broker that has not heard of it (5.x) is told that there is one."""

        async def once(*codes: int) -> Answered[Ans]:
            return await self.broker(
                name, method, header, accept=(*accept, *codes), lane=lane, held_s=held_s, standby=standby
            )

        answer = await once(Code.SUBSCRIPTION_GROUP_NOT_EXIST)
        if answer.code != Code.SUBSCRIPTION_GROUP_NOT_EXIST:
            return answer
        settings = m.SubscriptionGroupConfig(group_name=group)
        await self.broker(name, UPDATE_AND_CREATE_SUBSCRIPTIONGROUP, m.NoFields(), settings)
        return await once()

    async def names(self, method: Method[Req, Ans], header: Req, *, accept: Collection[int] = _OK) -> Answered[Ans]:
        """The answer of one name server."""
        return _read(method, await self._relay.ask_names(request(method, header)), accept)

    async def all_names(self, method: Method[Req, Ans], header: Req) -> None:
        """Tell every name server that answers."""
        for frame in await self._relay.ask_all_names(request(method, header)):
            _read(method, frame, _OK)

    async def gather(self, work: Sequence[Coroutine[Any, Any, T]]) -> list[T | PenstockError]:
        """All of it side by side; what each returns, or raises of ours."""
        found: list[T | PenstockError] = await self._relay.gather(work)
        for each in found:
            if isinstance(each, BaseException) and not isinstance(each, PenstockError):
                raise each
        return found


def _read(method: Method[Req, Ans], frame: Frame, accept: Collection[int], node: str | None = None) -> Answered[Ans]:
    try:
        return read_answer(method, frame, accept=accept, node=node)
    except ServerError as error:
        raise _as_log_says(error) from error
    except ProtocolViolation as error:
        raise UpstreamLost(f"an answer makes no sense: {error.message}", node=node) from error


def _as_log_says(error: ServerError) -> PenstockError:
    """A refusal of a broker's, as a log would have refused here."""
    words = f"RocketMQ says: {error.message}"
    if error.kind is ErrorKind.UNKNOWN_TOPIC:
        return UnknownTopic(words, node=error.node)
    if is_too_large(error):
        return BatchTooLarge(words, node=error.node)
    if error.code == Code.NO_PERMISSION:
        return Unsupported(words, node=error.node, hint="Allow it at the brokers: mqadmin updateTopicPerm")
    if error.retriable:
        return UpstreamLost(words, node=error.node)
    return StoreError(words, node=error.node)
