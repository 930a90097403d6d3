"""One request and its answer, typed: chooses the version, encodes, sends, decodes, names the node in errors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import TypeVar

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError, ProtocolViolation
from penstock.model import Endpoint
from penstock.protocols.kafka.client.options import KafkaOptions
from penstock.protocols.kafka.client.versions import Versions
from penstock.protocols.kafka.messages import request
from penstock.protocols.kafka.messages.codec import declared, decode_prefix, last_with_names, skip_tags
from penstock.seams.channel import Channel, Connection, Link, Outgoing, Pending, PromptLink, Told
from penstock.seams.framing import Frame
from penstock.wire import Reader

__all__ = ["ByVersion", "Calls", "Started", "only"]

Response = TypeVar("Response")


@dataclass(frozen=True, slots=True)
class ByVersion:
    """A request whose fields depend on the version it will be sent in, which only its connection knows.

    ``ids``: it knows the ids of its topics, for versions that take nothing else. All others are sent in versions that
    take names, whoever sends them: without a name and an id a request says nothing, and not everybody hears of it.
    """

    request: type
    build: Callable[[int], object]
    ids: bool = False


class Started:
    """A request that was written; ``answer`` reads what came back."""

    __slots__ = ("_calls", "_link", "_pending", "version")

    def __init__(self, calls: Calls, link: Link[Versions], pending: Pending, version: int) -> None:
        self._calls = calls
        self._link = link
        self._pending = pending
        self.version = version

    async def answer(self, response: type[Response]) -> Response:
        """Raises RequestTimeout, ConnectionLost, ProtocolViolation."""
        return self._calls.read(self._link, response, self.version, await self._pending.reply())

    def abandon(self) -> None:
        """The answer is not wanted any more; closes the connection, because it may be long in coming."""
        self._link.connection.close()


class Calls:
    """All requests of one client."""

    def __init__(self, channel: Channel[Versions], options: KafkaOptions) -> None:
        self.channel = channel
        self.options = options
        self._in_flight: Counter[Endpoint] = Counter()
        self._reached: set[Endpoint] = set()
        self.prompt = channel.prompt
        """An open connection on which something can be written now, for ``tell``."""

    async def call(
        self,
        endpoint: Endpoint,
        message: object,
        response: type[Response],
        *,
        lane: str = "",
        timeout_s: float | None = None,
        held_s: float = 0.0,
        at_most: int | None = None,
        within_s: float | None = None,
        over: Link[Versions] | None = None,
    ) -> Response:
        """Send ``message`` (or a ``ByVersion``) in the best common version, capped by ``at_most``; read the answer.

        ``timeout_s`` None is ``request_timeout_ms``; ``held_s`` is for how long the broker may keep the answer on
        purpose; ``within_s`` is how long to wait for a connection, None: as long as that may take; ``over`` is this
        lane's link, for who has it. Raises ConnectionLost, RequestTimeout, ProtocolViolation, and ServerError
        (UNSUPPORTED_VERSION) where client and broker have no version in common.
        """
        self._in_flight[endpoint] += 1
        try:
            link = await self.link(endpoint, lane, within_s) if over is None else over
            outgoing, version = self._outgoing(link, message, at_most)
            frame = await link.connection.call(outgoing, timeout_s=self._timeout(timeout_s), held_s=held_s)
        except PenstockError:
            self._reached.discard(endpoint)
            raise
        finally:
            self._in_flight[endpoint] -= 1
        return self.read(link, response, version, frame)

    async def ask(self, link: Link[Versions], outgoing: Outgoing) -> Frame:
        """Send what is encoded already; the answer's bytes. Raises ConnectionLost, RequestTimeout."""
        endpoint = link.connection.endpoint
        self._in_flight[endpoint] += 1
        try:
            return await link.connection.call(outgoing, timeout_s=self.options.request_timeout_s)
        except PenstockError:
            self._reached.discard(endpoint)
            raise
        finally:
            self._in_flight[endpoint] -= 1

    def tell(
        self, link: PromptLink[Versions], outgoing: Outgoing, told: Told, *, timeout_s: float, held_s: float = 0.0
    ) -> None:
        """Write what is encoded already; ``told`` hears of the answer's bytes. Raises ConnectionLost."""
        endpoint = link.connection.endpoint

        def heard(answer: Frame | PenstockError) -> None:
            self._in_flight[endpoint] -= 1
            if isinstance(answer, PenstockError):
                self._reached.discard(endpoint)
            told(answer)

        link.connection.tell(outgoing, heard, timeout_s=timeout_s, held_s=held_s)
        self._in_flight[endpoint] += 1

    async def start(
        self,
        endpoint: Endpoint,
        message: object,
        *,
        lane: str = "",
        timeout_s: float | None = None,
        held_s: float = 0.0,
        at_most: int | None = None,
    ) -> Started:
        """Send without waiting for the answer."""
        link = await self.link(endpoint, lane)
        outgoing, version = self._outgoing(link, message, at_most)
        pending = link.connection.start(outgoing, timeout_s=self._timeout(timeout_s), held_s=held_s)
        return Started(self, link, pending, version)

    async def send(
        self, endpoint: Endpoint, message: object, *, lane: str = "", at_most: int | None = None
    ) -> Connection:
        """Send what the broker never answers (Produce with acks=0); it hangs up instead of saying no."""
        link = await self.link(endpoint, lane)
        await link.connection.send(self._outgoing(link, message, at_most)[0])
        return link.connection

    async def link(self, endpoint: Endpoint, lane: str, within_s: float | None = None) -> Link[Versions]:
        """An open connection and what is spoken on it."""
        if within_s is None:
            link = await self.channel.link(endpoint, lane)
        else:
            link = await self.channel.reach(endpoint, lane, within_s=within_s)
        self._reached.add(endpoint)
        return link

    def _outgoing(self, link: Link[Versions], message: object, at_most: int | None) -> tuple[Outgoing, int]:
        """The request in the best version for this link, encoded when it is written; and that version."""
        kind = message.request if isinstance(message, ByVersion) else type(message)
        version = self.version(link, kind, at_most, ids=isinstance(message, ByVersion) and message.ids)
        built = message.build(version) if isinstance(message, ByVersion) else message
        return request(built, version, self.options.client_id), version

    def version(self, link: Link[Versions], kind: type, at_most: int | None = None, *, ids: bool = False) -> int:
        """The best version of a request on this link. Raises ServerError (UNSUPPORTED_VERSION)."""
        if not ids and (named := last_with_names(kind)) is not None:
            at_most = named if at_most is None else min(at_most, named)
        try:
            return link.state.best(kind, at_most)
        except PenstockError as error:
            error.node = str(link.connection.endpoint)
            raise

    def encoded(self, link: Link[Versions], message: object, at_most: int | None = None) -> tuple[Outgoing, int]:
        """A request for this link, and in which version it is; for ``tell``."""
        return self._outgoing(link, message, at_most)

    def read(self, link: Link[Versions], response: type[Response], version: int, frame: Frame) -> Response:
        """Decode an answer; one that cannot be decoded ends its connection, whose next bytes mean nothing."""
        try:
            return _decoded(response, version, frame)
        except ProtocolViolation as error:
            link.connection.close()
            error.node = str(link.connection.endpoint)
            raise

    def load(self, endpoint: Endpoint) -> tuple[bool, int]:
        """For choosing the least loaded node: smaller is better."""
        return endpoint not in self._reached, self._in_flight[endpoint]

    def _timeout(self, timeout_s: float | None) -> float:
        return self.options.request_timeout_s if timeout_s is None else timeout_s


def only(answers: Sequence[Response], what: str) -> Response:
    """The one answer to the one thing that was asked. Raises ProtocolViolation if there are none, or several."""
    if len(answers) != 1:
        raise ProtocolViolation(f"{what}: {len(answers)} answers to one question")
    return answers[0]


def _decoded(response: type[Response], version: int, frame: Frame) -> Response:
    """Bytes after the message are let pass, as Kafka's own clients do: librdkafka's mock brokers send one too many."""
    reader = Reader(frame.body)
    reader.i32()  # the correlation id
    if declared(response).is_flexible(version):
        skip_tags(reader)
    return decode_prefix(response, version, reader)
