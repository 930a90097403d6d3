"""The toy's one attribute for the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.config import ClientConfig, OptionValue, SnodeConfig
from penstock.model import Endpoint
from penstock.seams import ChannelFactory, Services, WireProtocol
from tests.toy.client import ToyClient
from tests.toy.dialect import ToyDialect
from tests.toy.front import ToyFront


def client(
    channel_of: ChannelFactory,
    bootstrap: Sequence[Endpoint],
    config: ClientConfig,
    extra: Mapping[str, OptionValue],
) -> ToyClient:
    dialect = ToyDialect()
    return ToyClient(channel_of(dialect), dialect, bootstrap)


def front(services: Services, config: SnodeConfig) -> ToyFront:
    return ToyFront(services)


PROTOCOL = WireProtocol("toy", client, front)
