"""Connections to brokers, and typed requests on them.

`KafkaDialect` opens a connection with ApiVersions; `Versions` chooses common versions; `Calls` encodes a request, sends
it and decodes its response; `KafkaOptions` has the client's timeouts and limits.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from msgspec import Struct

from penstock._version import __version__
from penstock.errors import ErrorKind, PenstockError, ProtocolViolation, ServerError
from penstock.interfaces.channel import Channel, Connection, Link, OnAnswer, Outgoing, Pending, PromptLink
from penstock.interfaces.framing import Buffers, Frame
from penstock.interfaces.wire import Reader
from penstock.model import Endpoint
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.wire.codec import declared, decode_prefix
from penstock.protocols.kafka.wire.codec_generator import skip_tags
from penstock.protocols.kafka.wire.declarations import last_with_names
from penstock.protocols.kafka.wire.framing import API_VERSIONS, KafkaFraming, read_response, request
from penstock.protocols.kafka.wire.metadata import ApiVersionsRequest, ApiVersionsResponse

__all__ = ["ByVersion", "Calls", "KafkaDialect", "KafkaOptions", "Started", "Versions", "only"]

# The options of a Kafka client, apart from those of its transport and of the engine above it.
_UNKNOWN_TOPIC_OR_PARTITION = 3


class KafkaOptions(Struct, frozen=True, kw_only=True):
    """Defaults are those of Kafka's Java clients 4.x.

    - ``request_timeout_ms`` bounds one request, ``api_timeout_ms`` an operation with its retries.
    - ``retry_backoff_ms`` doubles up to ``retry_backoff_max_ms``, with 20 % jitter.
    - ``metadata_max_age_ms``: older metadata is refreshed.
    - ``unknown_topic_patience_ms``: an unknown topic may have just been created; after this time it is an error.
    - ``short_log_patience_ms``: the same for a log that ends before a range does, because a new leader may lag behind
      for a moment.
    - ``silent_node_patience_ms``: a request to all nodes goes on without the unreachable ones after this time.
    - ``auto_create_topics`` lets brokers that allow it create a topic on a metadata request. It is off here, because a
      misspelt name would become a topic; producers have it on, as Java's.
    - ``read_committed``: records of aborted and open transactions are hidden.
    - ``check_crcs``: off trusts the network and the broker's disk.
    """

    client_id: str = "penstock"
    request_timeout_ms: int = 30_000
    api_timeout_ms: int = 60_000
    retry_backoff_ms: int = 100
    retry_backoff_max_ms: int = 1_000
    metadata_max_age_ms: int = 300_000
    unknown_topic_patience_ms: int = 3_000
    short_log_patience_ms: int = 5_000
    silent_node_patience_ms: int = 3_000
    auto_create_topics: bool = False
    read_committed: bool = False
    check_crcs: bool = True
    rack: str = ""

    @property
    def request_timeout_s(self) -> float:
        """``request_timeout_ms`` in the channel's unit."""
        return self.request_timeout_ms / 1_000

    def patience_ms(self, error: PenstockError) -> int:
        """How long to retry after ``error``: briefly for an unknown topic, whose name is probably misspelt."""
        unknown = isinstance(error, ServerError) and error.code == _UNKNOWN_TOPIC_OR_PARTITION
        return min(self.api_timeout_ms, self.unknown_topic_patience_ms) if unknown else self.api_timeout_ms


# The versions that a broker and this client have in common, determined once per connection.


class Versions:
    """A broker's ApiVersions response.

    It has the lowest and highest version by API key, and the levels of the cluster's finalized features (KIP-584).
    """

    __slots__ = ("_features", "_ranges")

    def __init__(self, ranges: Mapping[int, tuple[int, int]], features: Mapping[str, int] | None = None) -> None:
        self._ranges = dict(ranges)
        self._features = dict(features or {})

    def best(self, request: type, at_most: int | None = None) -> int:
        """The highest common version. Raises ServerError (UNSUPPORTED_VERSION) if there is none."""
        api = declared(request)
        theirs = self._ranges.get(api.key)
        highest = api.highest if at_most is None else min(api.highest, at_most)
        if theirs is not None:
            version = min(highest, theirs[1])
            if version >= max(api.lowest, theirs[0]):
                return version
        name = request.__name__.removesuffix("Request")
        raise ServerError(
            f"the broker does not serve {name}"
            if theirs is None
            else f"the broker serves {name} {theirs[0]} to {theirs[1]}, this client {api.lowest} to {highest}",
            code=_UNSUPPORTED_VERSION,
            name="UNSUPPORTED_VERSION",
            kind=ErrorKind.UNSUPPORTED,
        )

    def feature(self, name: str) -> int:
        """The level of a feature; 0 if the cluster does not have it."""
        return self._features.get(name, 0)

    def has(self, request: type) -> bool:
        """Whether the broker serves this API at all."""
        return declared(request).key in self._ranges


# One typed request: choose the version, encode, send, decode, name the node in errors.
Response = TypeVar("Response")


class ByVersion(Struct, frozen=True):
    """A request whose fields depend on its version, which only the connection knows.

    ``ids``: the request has topic ids, so versions without topic names are allowed. All other requests are limited to
    versions with names: a request with neither would be empty, and not every API reports that as an error.
    """

    request: type
    build: Callable[[int], object]
    ids: bool = False


class Started:
    """A request that was sent; ``answer`` awaits and decodes its response."""

    __slots__ = ("_calls", "_link", "_pending", "version")

    def __init__(self, calls: Calls, link: Link[Versions], pending: Pending, version: int) -> None:
        self._calls = calls
        self._link = link
        self._pending = pending
        self.version = version

    async def answer(self, response: type[Response]) -> Response:
        """The response. Raises RequestTimeout, ConnectionLost, ProtocolViolation."""
        return self._calls.read(self._link, response, self.version, await self._pending.reply())

    def abandon(self) -> None:
        """Give up the response. Closes the connection, because the response may take long."""
        self._link.connection.close()


class Calls:
    """All requests of one client."""

    def __init__(self, channel: Channel[Versions], options: KafkaOptions) -> None:
        self.channel = channel
        self.options = options
        self._in_flight: Counter[Endpoint] = Counter()
        self._reached: set[Endpoint] = set()
        self.prompt = channel.prompt
        """An open connection that can be written to now, for ``tell``."""

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
        """Send ``message`` (or a ``ByVersion``) in the best common version, capped by ``at_most``; read the response.

        ``timeout_s`` None is ``request_timeout_ms``; ``held_s`` is how long the broker may hold the response on
        purpose; ``within_s`` bounds the wait for a connection (None: no bound of its own); ``over`` is this lane's
        link, if the caller has it. Raises ConnectionLost, RequestTimeout, ProtocolViolation, and ServerError
        (UNSUPPORTED_VERSION) if client and broker have no version in common.
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

    def tell(
        self,
        link: PromptLink[Versions],
        outgoing: Outgoing,
        on_result: OnAnswer,
        *,
        timeout_s: float,
        held_s: float = 0.0,
    ) -> None:
        """Write an encoded request; ``on_result`` is called with the response's bytes. Raises ConnectionLost."""
        endpoint = link.connection.endpoint

        def heard(answer: Frame | PenstockError) -> None:
            self._in_flight[endpoint] -= 1
            if isinstance(answer, PenstockError):
                self._reached.discard(endpoint)
            on_result(answer)

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
        """Send without awaiting the response."""
        link = await self.link(endpoint, lane)
        outgoing, version = self._outgoing(link, message, at_most)
        pending = link.connection.start(outgoing, timeout_s=self._timeout(timeout_s), held_s=held_s)
        return Started(self, link, pending, version)

    async def send(
        self, endpoint: Endpoint, message: object, *, lane: str = "", at_most: int | None = None
    ) -> Connection:
        """Send a request without a response (Produce with acks=0); the broker closes the connection to refuse it."""
        link = await self.link(endpoint, lane)
        await link.connection.send(self._outgoing(link, message, at_most)[0])
        return link.connection

    async def link(self, endpoint: Endpoint, lane: str, within_s: float | None = None) -> Link[Versions]:
        """An open connection and its versions."""
        if within_s is None:
            link = await self.channel.link(endpoint, lane)
        else:
            link = await self.channel.reach(endpoint, lane, within_s=within_s)
        self._reached.add(endpoint)
        return link

    def _outgoing(self, link: Link[Versions], message: object, at_most: int | None) -> tuple[Outgoing, int]:
        """The request in the best version for this link, which is encoded when it is written; and that version."""
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
        """A request for this link, and its version; for ``tell``."""
        return self._outgoing(link, message, at_most)

    def read(self, link: Link[Versions], response: type[Response], version: int, frame: Frame) -> Response:
        """Decode a response; if that fails, close the connection, since its next bytes cannot be trusted."""
        try:
            return _decoded(response, version, frame)
        except ProtocolViolation as error:
            link.connection.close()
            error.node = str(link.connection.endpoint)
            raise

    def load(self, endpoint: Endpoint) -> tuple[bool, int]:
        """The sort key for the least loaded node: smaller is better."""
        return endpoint not in self._reached, self._in_flight[endpoint]

    def _timeout(self, timeout_s: float | None) -> float:
        return self.options.request_timeout_s if timeout_s is None else timeout_s


def only(answers: Sequence[Response], what: str) -> Response:
    """The single element. Raises ProtocolViolation if there are none, or several."""
    if len(answers) != 1:
        raise ProtocolViolation(f"{what}: {len(answers)} answers to one question")
    return answers[0]


def _decoded(response: type[Response], version: int, frame: Frame) -> Response:
    """Decode a response. Extra bytes are ignored, as in Kafka's own clients: librdkafka's mock brokers send one."""
    reader = Reader(frame.body)
    reader.i32()  # the correlation id
    if declared(response).is_flexible(version):
        skip_tags(reader)
    return decode_prefix(response, version, reader)


# The handshake on a connection: ApiVersions, and the fallback for a broker that does not know our version of it.
#
# Source: Kafka protocol guide, "Retrieving Supported API versions"; KIP-511 (a broker that does not know the version
# answers in version 0 with error 35 and, where it can, its own range).

_HIGHEST = 4
_FIRST_WITH_NAME = 3
_UNSUPPORTED_VERSION = 35
_LARGEST_ANSWER = 512 * 1024 * 1024
# Brokers check the version against [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])? and refuse the greeting otherwise.
_SOFTWARE_VERSION = re.sub(r"[^a-zA-Z0-9.-]", "-", __version__).strip("-.")


class KafkaDialect:
    """``penstock.interfaces.channel.Dialect``: the state of a link is its ``Versions``."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def framing(self) -> KafkaFraming:
        """Responses may exceed the limits of a request, because a broker always sends whole batches."""
        return KafkaFraming(answers=True, limit=_LARGEST_ANSWER)

    async def greet(self, connection: Connection) -> Versions:
        """Ask for the broker's versions. Raises ServerError, ProtocolViolation, ConnectionLost."""
        version = _HIGHEST
        answer = await self._ask(connection, version)
        if _error_code(answer) == _UNSUPPORTED_VERSION and version > 0:
            version = _fallback(answer)
            answer = await self._ask(connection, version)
        if _error_code(answer) != NONE:
            raise error_for(_error_code(answer), "asking for versions failed", node=str(connection.endpoint))
        found = read_response(ApiVersionsResponse, version, answer.body)
        return Versions(
            {each.api_key: (each.min_version, each.max_version) for each in found.api_keys},
            {each.name: each.max_version_level for each in found.finalized_features},
        )

    def pushed(self, connection: Connection, frame: Frame) -> Buffers | None:
        """Raise ProtocolViolation: brokers send nothing but responses."""
        del connection, frame
        raise ProtocolViolation("a broker sent something that is no answer")

    async def _ask(self, connection: Connection, version: int) -> Frame:
        message = ApiVersionsRequest()
        if version >= _FIRST_WITH_NAME:
            message = ApiVersionsRequest(client_software_name="penstock", client_software_version=_SOFTWARE_VERSION)
        return await connection.call(
            request(message, version, self._options.client_id), timeout_s=self._options.request_timeout_s
        )


def _error_code(answer: Frame) -> int:
    # The error code comes first in every version. With error 35 the rest is not in our version.
    if len(answer.body) < 6:
        raise ProtocolViolation(f"an ApiVersions answer of {len(answer.body)} bytes")
    return int.from_bytes(answer.body[4:6], "big", signed=True)


def _fallback(answer: Frame) -> int:
    """The version for the next attempt: the broker's highest if the response has it, else 0.

    librdkafka's mock cluster sends bytes after the error code that are not an array.
    """
    try:
        found = read_response(ApiVersionsResponse, 0, answer.body)
    except ProtocolViolation:
        return 0
    highest = (each.max_version for each in found.api_keys if each.api_key == API_VERSIONS)
    return min(next(highest, 0), _HIGHEST - 1)
