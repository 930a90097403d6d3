"""AdminClient: topics and groups as operators see them, whichever protocol is behind."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from penstock.model import Committed, Node, Partition, TopicInfo


@dataclass(frozen=True, slots=True)
class NewTopic:
    """``partitions`` -1 takes the server's default; ``config`` in the server's own words."""

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] | None = None


@dataclass(frozen=True, slots=True)
class GroupListing:
    group: str
    state: str
    protocol_type: str


class GroupListings(list[GroupListing]):
    """Groups; those of the nodes that are ``unreachable`` are not among them."""

    def __init__(self, listed: Iterable[GroupListing] = (), unreachable: Iterable[Node] = ()) -> None:
        super().__init__(listed)
        self.unreachable = tuple(unreachable)


@dataclass(frozen=True, slots=True)
class GroupMember:
    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: frozenset[Partition]


@dataclass(frozen=True, slots=True)
class GroupDescription:
    """``state`` is "Dead" for a group that does not exist; ``assignor`` "" while none was chosen."""

    group: str
    state: str
    assignor: str
    coordinator: Node | None
    members: tuple[GroupMember, ...]


class AdminClient(Protocol):
    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create all; returns when they can be written to. Raises ServerError for the first that could not be."""
        ...

    async def delete_topics(self, names: Collection[str]) -> None: ...
    async def add_partitions(self, name: str, total: int) -> None: ...
    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]: ...
    async def topic_config(self, name: str) -> Mapping[str, str]: ...
    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]: ...
    async def groups(self) -> Sequence[GroupListing]: ...
    async def describe_group(self, group: str) -> GroupDescription: ...
    async def committed(
        self, group: str, partitions: Collection[Partition] | None
    ) -> Mapping[Partition, Committed]: ...
    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None: ...
    async def delete_groups(self, groups: Collection[str]) -> None: ...
