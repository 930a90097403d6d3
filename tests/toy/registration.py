"""The toy's one attribute for the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.config import ClientConfig, OptionValue, SnodeConfig
from penstock.interfaces import ChannelFactory, Services, WireProtocol
from penstock.model import Endpoint
from tests.toy.client import ToyClient
from tests.toy.dialect import ToyDialect
from tests.toy.enode import ToyEnode
from tests.toy.faults import ToyWording
from tests.toy.front import ToyFront
from tests.toy.kernels.choice import HOME
from tests.toy.options import ADDED, ToyNodeConfig


def client(
    channel_of: ChannelFactory,
    bootstrap: Sequence[Endpoint],
    config: ClientConfig,
    extra: Mapping[str, OptionValue],
) -> ToyClient:
    dialect = ToyDialect()
    checks = str(extra.get("check_sums", True)).lower() == "true"
    return ToyClient(channel_of(dialect), dialect, bootstrap, check_sums=checks, max_age_ms=config.metadata_max_age_ms)


def front(services: Services, config: SnodeConfig) -> ToyFront:
    options = config.front(ToyNodeConfig)
    return ToyFront(services, spoil_sums=options.spoil_sums, hand_on=options.hand_on)


PROTOCOL = WireProtocol(
    "toy",
    client,
    front,
    ADDED,
    enode=ToyEnode,
    named_nodes=True,
    kernels=HOME,
    faults=ToyWording,
    title="The toy",
)
