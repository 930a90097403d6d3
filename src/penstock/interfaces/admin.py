"""AdminClient: topics and groups as operators see them, whichever protocol is behind."""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, field
from typing import Any, Protocol, runtime_checkable

from penstock._dataclasses import dataclass
from penstock.errors import PenstockError
from penstock.model import Committed, Node, Partition, TopicInfo

__all__ = ["Rebalance", "RebalanceCause", "RebalanceEnding", "RebalanceMove", "RebalanceReason"]


# What is known of one rebalance: why, who, how long, and what moved.
#
# Data only; `groups.rebalances` keeps it, and says it in words.
class RebalanceCause(enum.StrEnum):
    """What began a rebalance, or happened while members joined."""

    JOINED = "joined"
    CAME_BACK = "came back under its instance id with other protocols"
    CHANGED = "changed what it reads"
    OWNS_OTHERS = "joined again with other partitions than before"
    TOLD_OTHERS = "joined again and told the others something new"
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


@dataclass(frozen=True, slots=True)
class RebalanceReason:
    """``after_ms``: how long was waited, where somebody was waited for; ``said``: the member's own words (KIP-800)."""

    why: RebalanceCause
    member: str
    client: str = ""
    after_ms: int = 0
    said: str = ""


@dataclass(frozen=True, slots=True)
class RebalanceMove:
    """What a member ``lost`` and ``gained``: the first of them by name, and how many in all."""

    member: str
    lost: tuple[Partition, ...]
    gained: tuple[Partition, ...]
    lost_total: int
    gained_total: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Rebalance:
    """``generation`` is what it led to, -1 before. Times are milliseconds, ``began_ms`` since 1970 UTC.

    ``join_ms``: until all had joined, or were not waited for any more; ``last_joined`` was the slowest of those who
    did. ``assign_ms``: until the ``leader`` had brought the assignment; ``store_ms``: until the log had it.
    ``reasons`` and ``moved`` are the first of so many ``reasons_total``, ``moved_total``; the latter is -1 in groups of
    others than consumers, for only they know what they share.
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
        """All of it."""
        return self.join_ms + self.assign_ms + self.store_ms

    def as_fields(self) -> dict[str, Any]:
        """For JSON: fields by their names, those of partitions, too."""
        fields = asdict(self)
        for move in fields["moved"]:
            for name in ("lost", "gained"):
                move[name] = [partition._asdict() for partition in move[name]]
        return fields


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
