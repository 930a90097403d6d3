"""A member's assignors: Kafka's by name, with the user data they have there, and classes of its user's own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from penstock.errors import ConfigError, UsageError
from penstock.groups import Assignor, Racks, Shares, Subscriber
from penstock.model import Partition
from penstock.protocols.kafka.client.assignors import (
    KafkaCooperativeSticky,
    KafkaSticky,
    check_cooperation,
    check_shares,
    made_assignors,
)

ZERO, ONE = Partition("t", 0), Partition("t", 1)
BOTH = {"t": [ZERO, ONE]}
T = frozenset({"t"})
# One topic, one partition, then the generation: v1 of StickyAssignor's user data, and v0, which has none.
REMEMBERED = bytes.fromhex("00000001 0001 74 00000001 00000001 00000007")
REMEMBERED_V0 = REMEMBERED[:-4]


class Fixed(Assignor):
    name = "fixed"
    shares: Shares = {}

    def assign(
        self, members: Sequence[Subscriber], partitions: Mapping[str, Sequence[Partition]], racks: Racks
    ) -> Shares:
        return self.shares


def test_a_sticky_member_tells_what_it_got_last() -> None:
    sticky = KafkaSticky()
    assert sticky.user_data(T) is None
    sticky.assigned(frozenset({ONE}), 7)
    assert sticky.user_data(T) == REMEMBERED


@pytest.mark.parametrize("told", [REMEMBERED, REMEMBERED_V0])
def test_a_sticky_leader_goes_by_what_members_tell_not_by_what_they_own(told: bytes) -> None:
    members = [Subscriber("a", T, owned=frozenset({ONE}), generation=9), Subscriber("b", T, user_data=told)]
    assert KafkaSticky().assign(members, BOTH, {}) == {"a": [ZERO], "b": [ONE]}


@pytest.mark.parametrize("told", [b"", b"\0\0\0\1", REMEMBERED + b"\0", b"\xff" * 40])
def test_what_cannot_be_read_is_as_if_nothing_were_told(told: bytes) -> None:
    members = [Subscriber("a", T), Subscriber("b", T, user_data=told)]
    assert KafkaSticky().assign(members, BOTH, {}) == {"a": [ZERO], "b": [ONE]}
    assert KafkaCooperativeSticky().assign(members, BOTH, {}) == {"a": [ZERO], "b": [ONE]}


def test_a_cooperative_member_of_an_old_client_has_its_generation_in_its_user_data() -> None:
    cooperative = KafkaCooperativeSticky()
    assert cooperative.user_data(T) == b"\xff\xff\xff\xff"
    cooperative.assigned(frozenset({ONE}), 7)
    assert cooperative.user_data(T) == b"\0\0\0\7"
    old = Subscriber("a", T, owned=frozenset({ZERO, ONE}), user_data=b"\0\0\0\2")
    new = Subscriber("b", T, owned=frozenset({ONE}), generation=3)
    assert cooperative.assign([old, new], BOTH, {}) == {"a": [ZERO], "b": [ONE]}


def test_every_member_has_assignors_of_its_own_because_they_remember() -> None:
    first, second = made_assignors(["sticky", Fixed]), made_assignors(["sticky", Fixed])
    assert list(first) == ["sticky", "fixed"]
    assert all(first[name] is not second[name] for name in first)


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (["rang"], "no assignor 'rang'"),
        ([], "needs an assignor"),
        ([dict], "dict is no assignor with a name"),
        ([type("Unnamed", (Fixed,), {"name": ""})], "Unnamed is no assignor with a name"),
        (["range", type("Same", (Fixed,), {"name": "range"})], "one name: range, range"),
    ],
)
def test_what_is_no_assignor_is_refused(wanted: list[str | type[object]], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        made_assignors(wanted)


@pytest.mark.parametrize(
    ("shares", "why"),
    [
        ({"c": [ZERO]}, "'c', which is no member"),
        ({"a": [Partition("t", 9)]}, "t-9, which there is not"),
        ({"a": [ZERO], "b": [ZERO]}, "t-0 to two members"),
        ({"b": [ONE]}, "t-1 to 'b', which has not subscribed"),
    ],
)
def test_shares_that_would_break_the_group_are_refused(shares: Shares, why: str) -> None:
    members = [Subscriber("a", T), Subscriber("b", frozenset({"other"}))]
    with pytest.raises(UsageError, match=why):
        check_shares(Fixed(), shares, members, [ZERO, ONE])
    check_shares(Fixed(), {"a": [ONE]}, members, [ZERO, ONE])


def test_a_cooperative_assignor_must_not_give_away_what_somebody_owns() -> None:
    members = [Subscriber("a", T, owned=frozenset({ZERO, ONE})), Subscriber("b", T)]
    with pytest.raises(UsageError, match="t-1 to 'b' while 'a' still owns it"):
        check_cooperation(Fixed(), {"a": [ZERO], "b": [ONE]}, members)
    check_cooperation(Fixed(), {"a": [ZERO]}, members)
