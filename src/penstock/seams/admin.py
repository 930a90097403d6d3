"""AdminClient: topics and groups as operators see them, whichever protocol is behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError
from penstock.model import Committed, Node, Partition, TopicInfo
from penstock.seams.rebalances import Rebalance


@dataclass(frozen=True, slots=True)
class NewTopic:
    """``partitions`` of all brokers together; -1 takes the server's default. ``config`` in the server's own words."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """``default`` counts where the topic itself sets nothing; both are None where the server does not tell them.

    ``source`` says who set the value, in the server's own word: Kafka's are "DYNAMIC_TOPIC_CONFIG" for the topic
    itself, "DEFAULT_CONFIG", and those of brokers; "" where the server does not tell it.
    """

    value: str | None
    default: str | None = None
    source: str = ""


@dataclass(frozen=True, slots=True)
class GroupListing:
    """``state`` and ``type`` are "" where the server does not tell them.

    ``type`` is by which protocol a group is kept together: Kafka's "classic" and "consumer" (KIP-848), or "share" and
    "streams", which are no groups of consumers.
    """

    group: str
    state: str
    protocol_type: str
    type: str = ""


class GroupListings(list[GroupListing]):
    """Groups; those of the nodes that are ``unreachable`` are not among them."""

    def __init__(self, listed: Iterable[GroupListing] = (), unreachable: Iterable[Node] = ()) -> None:
        super().__init__(listed)
        self.unreachable = tuple(unreachable)


@dataclass(frozen=True, slots=True)
class GroupMember:
    """``partitions`` are those that it has now; ``target`` those that it is to have, where the server keeps them apart.

    ``epoch`` is None where members have none (Kafka's classic groups); ``upgraded`` says of a member of one of Kafka's
    newer groups whether it speaks their protocol itself (KIP-1099).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: frozenset[Partition]
    epoch: int | None = None
    target: frozenset[Partition] | None = None
    upgraded: bool | None = None


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """``state`` is "Dead" for a group that does not exist; ``assignor`` "" while none was chosen.

    ``type`` as in `GroupListing`. The epochs, of the group and of what was last shared out, are None where it has none.
    """

    group: str
    state: str
    assignor: str
    coordinator: Node | None
    members: tuple[GroupMember, ...]
    type: str = ""
    epoch: int | None = None
    target_epoch: int | None = None


class GroupDescriptions(dict[str, GroupDescription]):
    """Groups by name; those that could not be described are not among them but in ``failed``, with what went wrong."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[str, PenstockError] = {}

    def put(self, group: str, told: GroupDescription | PenstockError) -> None:
        """Keep what came of a group."""
        if isinstance(told, PenstockError):
            self.failed[group] = told
        else:
            self[group] = told


class AdminClient(Protocol):
    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create all; returns when they can be written to. Raises ServerError for the first that could not be."""
        ...

    async def delete_topics(self, names: Collection[str]) -> None: ...
    async def add_partitions(self, name: str, total: int) -> None: ...
    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]: ...
    async def topic_config(self, name: str) -> Mapping[str, str]: ...
    async def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]: ...

    async def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
        """Change these settings and no others; None: back to the default. Raises ServerError, UsageError."""
        ...

    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]: ...
    async def groups(self) -> Sequence[GroupListing]: ...
    async def describe_group(self, group: str) -> GroupDescription: ...
    async def committed(
        self, group: str, partitions: Collection[Partition] | None
    ) -> Mapping[Partition, Committed]: ...
    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None: ...
    async def rebalances(self, group: str) -> Sequence[Rebalance] | None:
        """What the coordinator remembers, oldest first; None where it keeps no account."""
        ...

    async def delete_groups(self, groups: Collection[str]) -> None: ...

    async def delete_offsets(self, group: str, partitions: Collection[Partition]) -> None:
        """Forget where a group stands in these. Raises ServerError for the first that could not be; UsageError."""
        ...

    async def remove_members(self, group: str, instance_ids: Collection[str], *, reason: str) -> None:
        """Throw static members out. Raises ServerError for the first that could not be, UsageError."""
        ...

    async def remove_all_members(self, group: str, *, reason: str) -> None:
        """Throw out who is there now. Raises ServerError for the first that could not be, UsageError."""
        ...


@runtime_checkable
class DescribesMany(Protocol):
    """An `AdminClient` whose servers describe several groups in one answer."""

    async def describe_groups(self, groups: Collection[str]) -> GroupDescriptions:
        """All of these. Raises ConnectionLost, RequestTimeout where nobody answers."""
        ...
