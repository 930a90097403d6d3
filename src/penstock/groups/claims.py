"""Claims: what members say they had before, and whom to believe where several name one partition.

The claim of the latest generation counts. If several members claim a partition in that same generation, nobody's does:
one of them cannot have noticed yet that it lost it. What must not live here: who gets what now.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field

from penstock._dataclasses import dataclass
from penstock.groups.assignor import Subscriber
from penstock.model import Partition

__all__ = ["Claims", "withhold"]


@dataclass(frozen=True, slots=True)
class Claims:
    """``owners`` has the one that is believed; ``outdated`` the best of those whose claim is older."""

    owners: Mapping[Partition, str] = field(default_factory=dict)
    outdated: Mapping[Partition, str] = field(default_factory=dict)

    @classmethod
    def of(cls, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]]) -> Claims:
        """Claims to partitions that are there, of topics that the member still wants."""
        there = {each for of_topic in partitions.values() for each in of_topic}
        claims: dict[Partition, list[tuple[int, str]]] = {}
        for member in members:
            for partition in member.owned & there:
                if partition.topic in member.topics:
                    claims.setdefault(partition, []).append((member.generation, member.member_id))
        owners: dict[Partition, str] = {}
        outdated: dict[Partition, str] = {}
        for partition, made in claims.items():
            latest = max(generation for generation, _ in made)
            first, *others = (who for generation, who in made if generation == latest)
            if not others:
                owners[partition] = first
            if older := [claim for claim in made if claim[0] < latest]:
                outdated[partition] = max(older)[1]
        return cls(owners, outdated)


def withhold(shares: Mapping[str, Sequence[Partition]], members: Sequence[Subscriber]) -> dict[str, list[Partition]]:
    """The same without partitions that another member still holds: nobody gets those until it has given them up.

    A member's own claim outweighs older ones only; one that claims nothing outweighs none.
    """
    claims: dict[Partition, dict[str, int]] = {}
    for member in members:
        for partition in member.owned:
            claims.setdefault(partition, {})[member.member_id] = member.generation

    def is_free(partition: Partition, new_owner: str) -> bool:
        made = claims.get(partition, {})
        own = made.get(new_owner)
        return all(who == new_owner or (own is not None and since < own) for who, since in made.items())

    return {who: [each for each in share if is_free(each, who)] for who, share in shares.items()}
