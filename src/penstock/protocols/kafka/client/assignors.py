"""The assignors of one member: those that Kafka's clients know by name, and its user's own classes.

What must not live here: how any of them shares out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final

from penstock.errors import ConfigError, UsageError
from penstock.groups.assignor import Assignor, Shares, Subscriber
from penstock.groups.range_assignor import RangeAssignor
from penstock.groups.round_robin_assignor import RoundRobinAssignor
from penstock.model import Partition
from penstock.protocols.kafka.client.sticky_assignors import KafkaCooperativeSticky, KafkaSticky

__all__ = ["ASSIGNORS", "check_cooperation", "check_shares", "made_assignors"]

ASSIGNORS: Final[Mapping[str, type[Assignor]]] = {
    each.name: each for each in (RangeAssignor, RoundRobinAssignor, KafkaSticky, KafkaCooperativeSticky)
}


def made_assignors(wanted: Sequence[str | type[object]]) -> dict[str, Assignor]:
    """A fresh one of each, by the names that members agree on, in their order.

    Raises ConfigError for a name that there is not, for a class that is none, for the same name twice, and for none.
    """
    if not wanted:
        raise ConfigError("a group member needs an assignor", hint=f"Use one of {', '.join(ASSIGNORS)}.")
    made = [_made(each) for each in wanted]
    found = {each.name: each for each in made}
    if len(found) < len(made):
        names = ", ".join(each.name for each in made)
        raise ConfigError(f"two assignors have one name: {names}", hint="Members agree on names: each needs its own.")
    return found


def _made(wanted: str | type[object]) -> Assignor:
    if isinstance(wanted, str):
        if wanted not in ASSIGNORS:
            raise ConfigError(f"there is no assignor {wanted!r}", hint=f"Use one of {', '.join(ASSIGNORS)}.")
        return ASSIGNORS[wanted]()
    made = wanted() if issubclass(wanted, Assignor) else None
    if made is None or not isinstance(getattr(made, "name", None), str) or not made.name:
        raise ConfigError(
            f"{wanted.__qualname__} is no assignor with a name", hint="Derive it from penstock.Assignor and set name."
        )
    return made


def check_shares(assignor: Assignor, shares: Shares, members: Sequence[Subscriber], known: Sequence[Partition]) -> None:
    """Raises UsageError for shares that would break the group: a user's own assignor may do anything."""
    if ASSIGNORS.get(assignor.name) is type(assignor):
        return
    what = f"the assignor {assignor.name!r} ({type(assignor).__qualname__}) gave"
    strangers = shares.keys() - {member.member_id for member in members}
    if strangers:
        raise UsageError(f"{what} partitions to {min(strangers)!r}, which is no member")
    given = Counter(partition for share in shares.values() for partition in share)
    if invented := given.keys() - set(known):
        raise UsageError(f"{what} out {min(invented)}, which there is not")
    if doubled := [partition for partition, times in given.items() if times > 1]:
        raise UsageError(f"{what} {min(doubled)} to two members: records would be read twice")
    for member in members:
        unwanted = [each for each in shares.get(member.member_id, ()) if each.topic not in member.topics]
        if unwanted:
            raise UsageError(f"{what} {min(unwanted)} to {member.member_id!r}, which has not subscribed to it")


def check_cooperation(assignor: Assignor, shares: Shares, members: Sequence[Subscriber]) -> None:
    """Raises UsageError where a partition would have two owners for a while (KIP-429)."""
    if ASSIGNORS.get(assignor.name) is type(assignor):
        return
    keeps = {member.member_id: member.owned & frozenset(shares.get(member.member_id, ())) for member in members}
    given_up = {each: member.member_id for member in members for each in member.owned - keeps[member.member_id]}
    for member_id, share in shares.items():
        for partition in share:
            if partition not in keeps[member_id] and partition in given_up:
                raise UsageError(
                    f"the assignor {assignor.name!r} gave {partition} to {member_id!r} while {given_up[partition]!r}"
                    " still owns it",
                    hint="A cooperative assignor leaves it out until its owner has given it up",
                )
