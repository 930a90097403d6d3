"""AdminClient: topics and groups as operators see them, for every protocol; and the account of a group's rebalances."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Any, Protocol

from msgspec import field

from penstock.errors import PenstockError, ServerError
from penstock.model import Committed, Node, Partition, TopicInfo, Value

__all__ = ["Rebalance", "RebalanceCause", "RebalanceEnding", "RebalanceMove", "RebalanceReason"]


# Data of one rebalance. `penstock.groups.rebalance_history` collects it and puts it into words.
class RebalanceCause(enum.StrEnum):
    """What began a rebalance, or happened while members joined."""

    JOINED = "joined"
    CAME_BACK = "came back under its instance id with other protocols"
    CHANGED = "changed what it reads"
    OWNS_OTHERS = "joined again with other partitions than before"
    CHANGED_METADATA = "joined again and told the others something new"
    LEADER_ASKED = "leads and asked for a new assignment"
    LEFT = "left"
    TAKEN_OUT = "was taken out by its instance id"
    EXPIRED = "was not heard of"
    NOT_JOINED = "did not join again"
    NOT_SYNCED = "did not ask for its assignment"
    NOT_REVOKED = "did not give up what it was told to"
    TOPICS_CHANGED = "found other topics or partitions than before"
    REFUSED = "found the group full"
    LOG_REFUSED = "brought an assignment that the log refused"


class RebalanceEnding(enum.StrEnum):
    """How a rebalance ended."""

    UNDER_WAY = "under way"
    ASSIGNED = "assigned"
    GIVEN_UP = "another one began first"
    DESERTED = "nobody was left"


class RebalanceReason(Value, frozen=True):
    """``after_ms``: how long the member was waited for, if it was; ``said``: the member's own words (KIP-800)."""

    why: RebalanceCause
    member: str
    client: str = ""
    after_ms: int = 0
    said: str = ""


class RebalanceMove(Value, frozen=True):
    """The partitions that a member ``lost`` and ``gained``: the first few, and the totals."""

    member: str
    lost: tuple[Partition, ...]
    gained: tuple[Partition, ...]
    lost_total: int
    gained_total: int


class Rebalance(Value, frozen=True, kw_only=True):
    """``generation`` is the one it led to, -1 until then. Times are milliseconds, ``began_ms`` since 1970 UTC.

    ``join_ms``: until all members had joined or were given up; ``last_joined`` is the slowest that joined.
    ``assign_ms``: until the ``leader`` sent the assignment; ``store_ms``: until the log had stored it. ``reasons`` and
    ``moved`` are the first of ``reasons_total`` and ``moved_total``. ``moved_total`` is -1 in groups of other kinds
    than consumers, whose assignments only the members understand.
    """

    began_ms: int
    ending: RebalanceEnding = RebalanceEnding.UNDER_WAY
    generation: int = -1
    members: int = 0
    leader: str = ""
    protocol: str = ""
    reasons: tuple[RebalanceReason, ...] = ()
    reasons_total: int = 0
    join_ms: int = 0
    last_joined: str = ""
    assign_ms: int = 0
    store_ms: int = 0
    moved: tuple[RebalanceMove, ...] = field(default=())
    moved_total: int = 0

    @property
    def took_ms(self) -> int:
        """The whole duration in milliseconds."""
        return self.join_ms + self.assign_ms + self.store_ms

    def as_fields(self) -> dict[str, Any]:
        """Fields by name for JSON, those of partitions included."""
        fields = asdict(self)
        for move in fields["moved"]:
            for name in ("lost", "gained"):
                move[name] = [partition._asdict() for partition in move[name]]
        return fields


class NewTopic(Value, frozen=True):
    """``partitions`` counts those of all brokers; -1 takes the server's default.

    ``config`` uses the server's own names.
    """

    name: str
    partitions: int = -1
    replication_factor: int = -1
    config: Mapping[str, str] | None = None


class TopicSetting(Value, frozen=True):
    """``default`` applies where the topic sets no value; both are None where the server does not report them.

    ``source`` says where the value was set, in the server's own word: Kafka has "DYNAMIC_TOPIC_CONFIG" for the topic
    itself, "DEFAULT_CONFIG", and values for brokers; "" where the server does not report it.
    """

    value: str | None
    default: str | None = None
    source: str = ""


class GroupListing(Value, frozen=True):
    """``state`` and ``type`` are "" where the server does not report them.

    ``type`` is the group's protocol: Kafka's "classic" and "consumer" (KIP-848), or "share" and "streams", which are
    not groups of consumers.
    """

    group: str
    state: str
    protocol_type: str
    type: str = ""


class GroupListings(list[GroupListing]):
    """The groups that were found; groups of the ``unreachable`` nodes are missing."""

    def __init__(self, listed: Iterable[GroupListing] = (), unreachable: Iterable[Node] = ()) -> None:
        super().__init__(listed)
        self.unreachable = tuple(unreachable)


class GroupMember(Value, frozen=True):
    """``partitions`` are those it has now; ``target`` those it is to get, where the server distinguishes them.

    ``epoch`` is None where members have none (Kafka's classic groups). ``upgraded``, for members of Kafka's newer
    groups, says whether the member itself speaks their protocol (KIP-1099).
    """

    member_id: str
    instance_id: str | None
    client_id: str
    host: str
    partitions: frozenset[Partition]
    epoch: int | None = None
    target: frozenset[Partition] | None = None
    upgraded: bool | None = None


class GroupDescription(Value, frozen=True):
    """``state`` is "Dead" for a group that does not exist; ``assignor`` is "" until one is chosen.

    ``type`` as in `GroupListing`. ``epoch`` is the group's and ``target_epoch`` that of its latest assignment; None
    where it has none.
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
    """Groups by name; a group that could not be described is in ``failed`` instead, with its error."""

    def __init__(self) -> None:
        super().__init__()
        self.failed: dict[str, PenstockError] = {}

    def put(self, group: str, found: GroupDescription | PenstockError) -> None:
        """Store the description of a group, or its error."""
        if isinstance(found, PenstockError):
            self.failed[group] = found
        else:
            self[group] = found


class AdminClient(Protocol):
    async def create_topics(self, topics: Sequence[NewTopic]) -> None:
        """Create all; returns when they can be written to. Raises ServerError for the first one that fails."""
        ...

    async def delete_topics(self, names: Collection[str]) -> None: ...
    async def add_partitions(self, name: str, total: int) -> None: ...
    async def topics(self, names: Collection[str] | None = None, *, fresh: bool = True) -> Mapping[str, TopicInfo]: ...
    async def topic_config(self, name: str) -> Mapping[str, str]: ...
    async def describe_topic_config(self, name: str) -> Mapping[str, TopicSetting]: ...

    async def alter_topic_config(self, name: str, settings: Mapping[str, str | None], *, dry_run: bool) -> None:
        """Change only these settings; None resets one to its default. Raises ServerError, UsageError."""
        ...

    async def delete_records(self, before: Mapping[Partition, int]) -> Mapping[Partition, int]: ...
    async def groups(self) -> Sequence[GroupListing]: ...
    async def describe_group(self, group: str) -> GroupDescription: ...

    async def describe_groups(self, groups: Collection[str]) -> GroupDescriptions:
        """Describe groups by name, in the given order; at once, where servers describe several in one answer.

        Raises errors that do not belong to a single group: ConnectionLost, RequestTimeout.
        """
        found = GroupDescriptions()
        for group in dict.fromkeys(groups):
            try:
                found.put(group, await self.describe_group(group))
            except ServerError as error:
                found.put(group, error)
        return found

    async def committed(
        self, group: str, partitions: Collection[Partition] | None
    ) -> Mapping[Partition, Committed]: ...
    async def commit(self, group: str, offsets: Mapping[Partition, Committed]) -> None: ...
    async def rebalances(self, group: str) -> Sequence[Rebalance] | None:
        """What the coordinator remembers, oldest first; None where it keeps no history."""
        ...

    async def delete_groups(self, groups: Collection[str]) -> None: ...

    async def delete_offsets(self, group: str, partitions: Collection[Partition]) -> None:
        """Delete a group's committed offsets of these. Raises ServerError for the first one that fails, UsageError."""
        ...

    async def remove_members(self, group: str, instance_ids: Collection[str], *, reason: str) -> None:
        """Remove static members. Raises ServerError for the first one that fails, UsageError."""
        ...

    async def remove_all_members(self, group: str, *, reason: str) -> None:
        """Remove all present members. Raises ServerError for the first one that fails, UsageError."""
        ...
