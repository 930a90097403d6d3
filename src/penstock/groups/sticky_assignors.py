"""The sticky assignors: even shares, of which as much as possible stays where it was (KIP-54, KIP-341, KIP-429).

What members had before is what they say (`Subscriber.owned` and ``generation``). Where members and nodes tell their
racks, partitions go to members that have a copy in theirs, never at the cost of even shares (KIP-881).
What must not live here: how a protocol's members say it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from penstock.groups.assignor import Assignor, Racks, Subscriber
from penstock.groups.claims import Claims, withhold
from penstock.groups.even_shares import even_shares
from penstock.groups.racks import Nearness
from penstock.groups.uneven_shares import uneven_shares
from penstock.model import Partition

__all__ = ["CooperativeStickyAssignor", "StickyAssignor"]


class StickyAssignor(Assignor):
    """`Assignor` for members that have given up everything before they join."""

    name = "sticky"

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """Owners by member id; see `Assignor.assign`.

        >>> parts = {"t": [Partition("t", n) for n in range(2)]}
        >>> had_both = Subscriber("b", frozenset({"t"}), owned=frozenset(parts["t"]), generation=1)
        >>> shares = StickyAssignor().assign([Subscriber("a", frozenset({"t"})), had_both], parts, {})
        >>> [partition.id for partition in shares["b"]]
        [0]
        """
        wanting: dict[str, list[str]] = {}
        for member in sorted(members, key=lambda each: each.member_id):
            for topic in member.topics & partitions.keys():
                wanting.setdefault(topic, []).append(member.member_id)
        names = sorted(member.member_id for member in members)
        claims, near = Claims.of(members, partitions), Nearness.of(members, partitions, racks)
        if all(len(who) == len(names) for who in wanting.values()):
            everything = [each for topic in sorted(wanting) for each in partitions[topic]]
            return {who: sorted(share) for who, share in even_shares(names, everything, claims, near).items()}
        return {who: sorted(share) for who, share in uneven_shares(names, partitions, wanting, claims, near).items()}


class CooperativeStickyAssignor(StickyAssignor):
    """`StickyAssignor` for members that keep what they own while others join."""

    name = "cooperative-sticky"
    cooperative = True

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> dict[str, list[Partition]]:
        """Owners by member id, without what another member has to give up first."""
        return withhold(super().assign(members, partitions, racks), members)
