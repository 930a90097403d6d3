"""Finding the coordinator of a group or of a transactional id, and asking it on a connection of its own.

A group's must not be shared: a JoinGroup may block it for minutes.
Source: Kafka protocol guide, FindCoordinator v0-v6 (KIP-699 from v4).
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeVar

from penstock.errors import ConnectionLost, PenstockError, ProtocolViolation, RequestTimeout, ServerError
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.kafka.client.calls import ByVersion
from penstock.protocols.kafka.client.cluster import Cluster
from penstock.protocols.kafka.client.commit_form import CommitForm
from penstock.protocols.kafka.client.held_offsets import HeldOffsets
from penstock.protocols.kafka.client.identity import NOBODY, Identity
from penstock.protocols.kafka.client.versions import Versions
from penstock.protocols.kafka.errors import NONE, error_for, row
from penstock.protocols.kafka.messages.commits import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    FindCoordinatorResponseCoordinator,
)
from penstock.seams.channel import Connection, Link, Outgoing, PromptLink, Told
from penstock.seams.framing import Frame
from penstock.seams.retry import Retry

__all__ = ["Coordinator", "Kind", "coordinators"]

Response = TypeVar("Response")
T = TypeVar("T")
_FIRST_WITH_KEYS = 4


class Kind(enum.IntEnum):
    """What a coordinator coordinates; the values are FindCoordinator's key types."""

    GROUP = 0
    TRANSACTION = 1


_NOUNS = {Kind.GROUP: "group", Kind.TRANSACTION: "transactional id"}
_ASIDE = " aside"
_LANES = {Kind.GROUP: "coordinator", Kind.TRANSACTION: "transactions"}


class Coordinator:
    """The coordinator of one group, or one transactional id (its ``key``), as far as is known."""

    def __init__(self, cluster: Cluster, key: str, kind: Kind = Kind.GROUP) -> None:
        self.cluster = cluster
        self.key = key
        self._kind = kind
        self._lane = _LANES[kind]
        self._node: Node | None = None
        self._connection: Connection | None = None
        self._aside: Connection | None = None
        self.commit_forms: dict[Partition, tuple[object, CommitForm]] = {}
        self.asks_as: Identity = NOBODY
        """As whom offsets are asked for: the member of a newer group that this client is, while it is one."""
        self.held_offsets = HeldOffsets(cluster.calls.options.client_id, key)

    async def find(self) -> Node:
        """The node, asked for if unknown; waits while the cluster has none. Raises ServerError, ConnectionLost."""
        calls = self.cluster.calls
        retry = Retry(calls.channel, calls.options)
        while self._node is None:
            try:
                self._node = await self._ask()
            except PenstockError as error:
                await retry.after(error)
        return self._node

    def forget(self) -> None:
        """It is somebody else now, or cannot be reached."""
        self._node = None

    def note(self, error: PenstockError) -> None:
        """Draw the conclusion from an error."""
        if isinstance(error, (ConnectionLost, RequestTimeout)) or (
            isinstance(error, ServerError) and row(error.code).rediscover_coordinator
        ):
            self.forget()

    async def call(
        self,
        message: object,
        response: type[Response],
        *,
        timeout_s: float | None = None,
        held_s: float = 0.0,
        at_most: int | None = None,
        aside: bool = False,
    ) -> Response:
        """One request; a broken connection makes the coordinator unknown. ``held_s`` as for ``Calls.call``.

        ``aside``: on a connection of its own, which others are not held up on meanwhile.
        """
        node = await self.find()
        calls = self.cluster.calls
        try:
            link = await calls.link(node.endpoint, self._lane + _ASIDE if aside else self._lane)
            if aside:
                self._aside = link.connection
            else:
                self._connection = link.connection
            return await calls.call(
                node.endpoint, message, response, timeout_s=timeout_s, held_s=held_s, at_most=at_most, over=link
            )
        except PenstockError as error:
            self.note(error)
            raise

    async def persist(self, ask: Callable[[], Awaitable[T]]) -> T:
        """Ask until it answers, whoever it is by then. Raises what trying again does not help against, and what there
        was when ``api_timeout_ms`` is over."""
        retry = Retry(self.cluster.calls.channel, self.cluster.calls.options)
        while True:
            try:
                return await ask()
            except PenstockError as error:
                self.note(error)
                await retry.after(error)

    async def link(self) -> Link[Versions]:
        """A connection to it, for ``ask``. Raises as ``call`` does."""
        node = await self.find()
        try:
            link = await self.cluster.calls.link(node.endpoint, self._lane)
        except PenstockError as error:
            self.note(error)
            raise
        self._connection = link.connection
        return link

    async def ask(self, link: Link[Versions], outgoing: Outgoing) -> Frame:
        """As ``call``, for who has encoded the request already."""
        try:
            return await self.cluster.calls.ask(link, outgoing)
        except PenstockError as error:
            self.note(error)
            raise

    def prompt(self) -> PromptLink[Versions] | None:
        """Its connection, if it is known who it is and nothing has to be waited for; for ``tell``."""
        if self._node is None:
            return None
        link = self.cluster.calls.prompt(self._node.endpoint, self._lane)
        if link is not None:
            self._connection = link.connection
        return link

    def tell(self, link: PromptLink[Versions], outgoing: Outgoing, told: Told) -> None:
        """As ``ask``; ``told`` hears of the answer. Who deals with an error has to ``note`` it.

        Raises ConnectionLost.
        """
        calls = self.cluster.calls
        calls.tell(link, outgoing, told, timeout_s=calls.options.request_timeout_s)

    async def versions(self) -> Versions:
        """What the coordinator speaks. Raises as ``find`` does, and ConnectionLost."""
        node = await self.find()
        return (await self.cluster.calls.link(node.endpoint, self._lane)).state

    def hang_up(self) -> None:
        """Close the connections: an answer is not wanted any more, and others should not wait behind it."""
        for connection in (self._connection, self._aside):
            if connection is not None:
                connection.close()

    async def _ask(self) -> Node:
        found = (await coordinators(self.cluster, [self.key], self._kind))[self.key]
        if isinstance(found, PenstockError):
            raise found
        return found


async def coordinators(
    cluster: Cluster, keys: Sequence[str], kind: Kind = Kind.GROUP
) -> dict[str, Node | PenstockError]:
    """Who coordinates each of these now, or what the broker says instead; each is asked for once.

    In one request from v4 on. Raises what there is where nobody answers, ProtocolViolation.
    """
    found: dict[str, Node | PenstockError] = {}
    while left := keys[len(found) :]:
        build = functools.partial(_request, left, kind)
        answer = await cluster.ask_anyone(ByVersion(FindCoordinatorRequest, build), FindCoordinatorResponse)
        if answer.coordinators == ():  # the default, before v4
            found[left[0]] = _node(answer, left[0], kind)
            continue
        told = {each.key: each for each in answer.coordinators}
        if told.keys() != set(left) or len(answer.coordinators) != len(left):
            raise ProtocolViolation(
                f"{_what(left[0], kind)}: {len(answer.coordinators)} answers to {len(left)} questions, or to others"
            )
        found |= {key: _node(told[key], key, kind) for key in left}
    return found


def _request(keys: Sequence[str], kind: Kind, version: int) -> FindCoordinatorRequest:
    if version < _FIRST_WITH_KEYS:
        return FindCoordinatorRequest(key=keys[0], key_type=kind)
    return FindCoordinatorRequest(coordinator_keys=keys, key_type=kind)


def _what(key: str, kind: Kind) -> str:
    return f"finding the coordinator of {_NOUNS[kind]} {key!r} failed"


def _node(
    told: FindCoordinatorResponse | FindCoordinatorResponseCoordinator, key: str, kind: Kind
) -> Node | PenstockError:
    if told.error_code != NONE:
        return error_for(told.error_code, _what(key, kind), detail=told.error_message)
    if not told.host:
        return ProtocolViolation(f"{_what(key, kind)}: the answer names nobody")
    return Node(str(told.node_id), Endpoint(told.host, told.port))
