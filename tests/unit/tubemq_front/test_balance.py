"""Who gets which partitions in one balance run."""

from penstock.model import Partition
from penstock.protocols.tubemq.server.balancing import Claim, share_out

P = [Partition("t", number) for number in range(7)]


def first(count: int) -> int:
    assert count > 0
    return 0


def claim(member: str, *numbers: int, stripped: bool = False, barred: bool = False) -> Claim:
    return Claim(member, frozenset(P[number] for number in numbers), stripped, barred)


def numbers(shares: dict[str, list[Partition]]) -> dict[str, list[int]]:
    return {member: [partition.id for partition in share] for member, share in shares.items()}


def test_a_groups_first_run_gives_contiguous_slices() -> None:
    shares = share_out([claim("b"), claim("a"), claim("c")], P, first)
    assert numbers(shares) == {"a": [0, 1, 2], "b": [3, 4], "c": [5, 6]}


def test_the_longer_slices_of_many_topics_do_not_all_go_to_the_same_member() -> None:
    many = [Partition(topic, 0) for topic in "vwxy"]
    shares = share_out([claim("a"), claim("b")], many, first)
    assert {member: len(share) for member, share in shares.items()} == {"a": 2, "b": 2}


def test_a_free_partition_goes_to_who_has_least_and_nothing_else_moves() -> None:
    shares = share_out([claim("a", 0, 1, 2, 3), claim("b", 4)], P[:6], first)
    assert numbers(shares) == {"a": [0, 1, 2, 3], "b": [4, 5]}


def test_a_newcomer_gets_its_share_and_nothing_moves_between_the_others() -> None:
    shares = share_out([claim("a", 0, 1, 2, 3), claim("b", 4, 5, 6), claim("c")], P, first)
    assert sorted(len(share) for share in shares.values()) == [2, 2, 3]
    assert set(numbers(shares)["a"]) <= {0, 1, 2, 3}
    assert set(numbers(shares)["b"]) <= {4, 5, 6}


def test_what_two_claim_stays_with_the_first() -> None:
    shares = share_out([claim("a", 0, 1), claim("b", 1, 2)], P[:3], first)
    assert numbers(shares) == {"a": [0, 1], "b": [2]}


def test_a_stripped_member_loses_everything_and_does_not_get_it_back_at_once() -> None:
    shares = share_out([claim("a", 0, 1, stripped=True), claim("b", 2, 3)], P[:4], first)
    assert numbers(shares) == {"a": [], "b": [2, 3, 0, 1]}


def test_a_barred_member_gets_nothing_even_if_it_has_least() -> None:
    shares = share_out([claim("a", barred=True), claim("b", 0)], P[:2], first)
    assert numbers(shares) == {"a": [], "b": [0, 1]}


def test_what_only_a_stripped_member_could_take_stays_free() -> None:
    assert numbers(share_out([claim("a", 0, stripped=True)], P[:1], first)) == {"a": []}


def test_a_partition_that_is_gone_is_taken_away() -> None:
    assert numbers(share_out([claim("a", 0, 6)], P[:1], first)) == {"a": [0]}
