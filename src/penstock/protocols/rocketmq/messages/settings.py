"""How brokers, topics and groups are set and used, as operators see it: 18, 21, 26, 28, 201, 315, 328, 351, 352.

Source: Apache RocketMQ 4.9 and 5.x, ``KVTable``, ``TopicConfig``, ``TopicConfigSerializeWrapper``,
``SubscriptionGroupWrapper``.
"""

from __future__ import annotations

from dataclasses import field
from typing import Annotated

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.messages.cluster import SubscriptionGroupConfig
from penstock.protocols.rocketmq.messages.declare import Int32, Int64, named

__all__ = [
    "DataVersion",
    "OfGroupName",
    "OfProducers",
    "ProducerInfo",
    "Producers",
    "StatsOf",
    "SubscriptionGroups",
    "Table",
    "TopicConfig",
    "TopicConfigList",
    "TopicConfigs",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Names and values: the body of the answer to 28."""

    table: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class DataVersion:
    """Which state of a table it is."""

    counter: Int64 = 0
    state_version: Int64 = 0
    timestamp: Int64 = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfig:
    """A topic on a broker; the body of the answer to 351."""

    topic_name: str
    read_queue_nums: Int32
    write_queue_nums: Int32
    perm: Int32 = 6
    topic_filter_type: str = "SINGLE_TAG"
    topic_sys_flag: Int32 = 0
    order: bool = False
    attributes: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigList:
    """The body of 18: several topics to be made, or changed. Attributes are called ``+name`` there."""

    topic_config_list: tuple[TopicConfig, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicConfigs:
    """The body of the answer to 21."""

    topic_config_table: dict[str, TopicConfig] = field(default_factory=dict)
    data_version: DataVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionGroups:
    """The body of the answer to 201."""

    subscription_group_table: dict[str, SubscriptionGroupConfig] = field(default_factory=dict)
    data_version: DataVersion | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class OfGroupName:
    """352: how a group is set."""

    group: str
    broker_name: Annotated[str | None, named("bname")] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerInfo:
    """A producer in the answer to 328."""

    client_id: str
    remote_ip: Annotated[str, named("remoteIP")]
    language: str
    version: Int32
    last_update_timestamp: Int64


@dataclass(frozen=True, slots=True, kw_only=True)
class Producers:
    """The body of the answer to 328: all producers, by their groups."""

    data: dict[str, tuple[ProducerInfo, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class StatsOf:
    """315: how often something happened to something, by the names that brokers have for both."""

    stats_name: str
    stats_key: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OfProducers:
    """204: a producer group's connections."""

    producer_group: str
    broker_name: Annotated[str | None, named("bname")] = None
