"""RocketMQ's entry in the registry of protocols. Client, front and backend are imported when one of them is made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Final

from penstock.interfaces import ChannelFactory, Front, LogClient, Services, WireProtocol
from penstock.interfaces.front import Wording
from penstock.interfaces.node import BackendContext, OpenedEnode
from penstock.model import Endpoint
from penstock.protocols.rocketmq.config import ADDED, COLUMNS

if TYPE_CHECKING:
    from penstock.config import ClientConfig, OptionValue, SnodeConfig

__all__ = ["PROTOCOL"]

_HERE: Final = "penstock.protocols.rocketmq"


def _client(
    channel_of: ChannelFactory, bootstrap: Sequence[Endpoint], config: ClientConfig, extra: Mapping[str, OptionValue]
) -> LogClient:
    opened: LogClient = import_module(f"{_HERE}.client.client").open_client(channel_of, bootstrap, config, extra)
    return opened


def _front(services: Services, config: SnodeConfig) -> Front:
    opened: Front = import_module(f"{_HERE}.server.front").open_front(services, config)
    return opened


def _enode(url: str, around: BackendContext) -> OpenedEnode:
    opened: OpenedEnode = import_module(f"{_HERE}.backend.enode").open_enode(url, around)
    return opened


def _faults() -> Wording:
    made: Wording = import_module(f"{_HERE}.server.dispatch").RocketWording()
    return made


_ALWAYS = (f"{_HERE}.client.client", f"{_HERE}.kernels._pure")
PROTOCOL = WireProtocol(
    "rocketmq",
    _client,
    _front,
    ADDED,
    loads={
        "consumer": (*_ALWAYS, f"{_HERE}.wire.columns"),
        "producer": (*_ALWAYS, f"{_HERE}.wire.message_format"),
    },
    columns=COLUMNS,
    column_options={"all_properties": True},
    kernels=f"{_HERE}.kernels",
    enode=_enode,
    own_topics=("rocketmq.RETRY.", "rocketmq.DLQ."),
    relays=True,
    named_nodes=True,
    faults=_faults,
    skips_bad_records=True,
    title="RocketMQ",
)
