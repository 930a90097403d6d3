"""The first words on a connection to a broker: ApiVersions, and what it means when the broker does not know ours.

Source: Kafka protocol guide, "Retrieving Supported API versions"; KIP-511 (a broker that does not know the version
answers in version 0 with error 35 and, where it can, its own range).
"""

from __future__ import annotations

import re

from penstock._version import __version__
from penstock.errors import ProtocolViolation
from penstock.protocols.kafka.client.options import KafkaOptions
from penstock.protocols.kafka.client.versions import Versions
from penstock.protocols.kafka.errors import NONE, error_for
from penstock.protocols.kafka.framing import KafkaFraming
from penstock.protocols.kafka.messages import read_response, request
from penstock.protocols.kafka.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from penstock.protocols.kafka.messages.catalog import API_VERSIONS
from penstock.seams.channel import Connection
from penstock.seams.framing import Buffers, Frame

__all__ = ["KafkaDialect"]

_HIGHEST = 4
_FIRST_WITH_NAME = 3
_UNSUPPORTED_VERSION = 35
_LARGEST_ANSWER = 512 * 1024 * 1024
# Brokers check the version against [a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])? and refuse the greeting otherwise.
_SOFTWARE_VERSION = re.sub(r"[^a-zA-Z0-9.-]", "-", __version__).strip("-.")


class KafkaDialect:
    """``penstock.seams.channel.Dialect``: the state of a link is its ``Versions``."""

    def __init__(self, options: KafkaOptions) -> None:
        self._options = options

    def framing(self) -> KafkaFraming:
        """Answers may be larger than any request: one batch always comes whole, whatever limit was asked for."""
        return KafkaFraming(answers=True, limit=_LARGEST_ANSWER)

    async def greet(self, connection: Connection) -> Versions:
        """Ask what the broker speaks; raises ServerError, ProtocolViolation, ConnectionLost."""
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
        """Brokers never speak first."""
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
    # The error code comes first in every version. It is read before the rest, which is not of our version if it is 35.
    if len(answer.body) < 6:
        raise ProtocolViolation(f"an ApiVersions answer of {len(answer.body)} bytes")
    return int.from_bytes(answer.body[4:6], "big", signed=True)


def _fallback(answer: Frame) -> int:
    """The version to ask in next: the broker's highest if the answer says so, else the first one there was.

    librdkafka's mock cluster sends a tail that is no array at all.
    """
    try:
        found = read_response(ApiVersionsResponse, 0, answer.body)
    except ProtocolViolation:
        return 0
    highest = (each.max_version for each in found.api_keys if each.api_key == API_VERSIONS)
    return min(next(highest, 0), _HIGHEST - 1)
