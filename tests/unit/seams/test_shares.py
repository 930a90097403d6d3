"""A total that clients share: no connection and no address can use it up, and what is kept counts as memory."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

import pytest

from penstock.concurrency.limits import Divided, Shares, divided
from penstock.model import Endpoint


class Connection:
    def __init__(self, host: str) -> None:
        self.address = Endpoint(host, 1)


class Memory:
    """Counts what is kept."""

    free = 0

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.kept = 0

    def reserved(self, size: int) -> AbstractContextManager[None]:
        del size
        return nullcontext()

    def keep(self, change: int) -> None:
        self.kept += change


def filled(
    shares: Shares[tuple[object, int]], owner: Connection, most: int = 100_000, size: int = 1
) -> tuple[int, str]:
    """How many one connection may keep, and what it is told about the next."""
    for number in range(most):
        if (why := shares.put((owner, number), owner, size)) is not None:
            return number, why
    return most, ""


@pytest.mark.parametrize(
    ("total", "percent", "parts"),
    [
        (10_000, 50, Divided(10_000, 5_000, 500)),
        (100_000, 50, Divided(100_000, 50_000, 5_000)),
        (10_000, 100, Divided(10_000, 10_000, 500)),
        (10_000, 1, Divided(10_000, 200, 200)),
        (300, 50, Divided(300, 200, 100)),
        (20, 50, Divided(20, 20, 20)),
    ],
)
def test_a_total_has_parts_and_a_small_one_is_not_divided(total: int, percent: int, parts: Divided) -> None:
    assert divided(total, percent) == parts


def test_one_connection_gets_a_twentieth_one_address_half_and_all_together_the_total() -> None:
    shares: Shares[tuple[object, int]] = Shares("places", "max_places", 10_000)
    first = Connection("10.0.0.1")
    assert filled(shares, first) == (
        500,
        "500 places over this connection, its share of 10000 (max_places); more are not taken",
    )
    for _ in range(9):
        assert filled(shares, Connection("10.0.0.1"))[0] == 500
    assert filled(shares, Connection("10.0.0.1")) == (
        0,
        "5000 places from 10.0.0.1, its share of 10000 (max_places, address_share_percent); more are not taken",
    )
    other = Connection("10.0.0.2")
    assert shares.put((other, 0), other, 1) is None
    while filled(shares, Connection("10.0.0.2"))[0]:
        pass
    assert shares.put((other, 9), Connection("10.0.0.3"), 1) == "10000 places, more are not taken (max_places)"
    for number in range(500):
        shares.drop((first, number))
    assert filled(shares, Connection("10.0.0.3"))[0] == 500


def test_several_thousand_clients_of_one_address_are_served() -> None:
    shares: Shares[tuple[object, int]] = Shares("places", "max_places", 10_000)
    for _ in range(5_000):
        each = Connection("127.0.0.1")
        assert shares.put((each, 0), each, 1_000) is None


def test_bytes_have_parts_of_a_sixteenth_of_memory() -> None:
    memory = Memory(512 << 20)
    shares: Shares[tuple[object, int]] = Shares("places", "max_places", 1_000_000, memory)
    count, why = filled(shares, Connection("10.0.0.1"), size=100_000)
    assert count == (32 << 20) * 30 // 100 // 100_000
    assert (
        why == "places over this connection take 10000000 bytes, and 100000 more are above its share,"
        " which is 10066329 (of memory_bytes)"
    )
    while filled(shares, Connection("10.0.0.1"), size=100_000)[0]:
        pass
    assert (16 << 20) - 100_000 < memory.kept <= 16 << 20
    assert filled(shares, Connection("10.0.0.2"), 1, size=100_000)[0] == 1


def test_what_is_kept_again_is_not_counted_twice_and_a_refusal_changes_nothing() -> None:
    memory = Memory(512 << 20)
    shares: Shares[str] = Shares("places", "max_places", 2, memory)
    one, two = Connection("a"), Connection("b")
    assert shares.put("x", one, 10) is None
    assert shares.put("x", one, 30) is None
    assert shares.put("x", two, 20) is None
    assert (len(shares), shares.size, memory.kept) == (1, 20, 20)
    assert "more are above its share" in (shares.put("x", two, 12 << 20) or "")
    assert (len(shares), shares.size, memory.kept) == (1, 20, 20)
    shares.put("y", one, 1)
    assert shares.put("z", None, 1) == "2 places, more are not taken (max_places)"
    for key in ("x", "y", "z"):
        shares.drop(key)
    assert (len(shares), shares.size, memory.kept) == (0, 0, 0)


def test_an_address_owns_what_outlives_its_connections_and_has_no_share_of_a_connection() -> None:
    shares: Shares[int] = Shares("groups", "max_groups", 10_000)
    assert all(shares.put(number, "10.0.0.1", 1) is None for number in range(5_000))
    assert shares.put(5_000, "10.0.0.1", 1) == (
        "5000 groups from 10.0.0.1, its share of 10000 (max_groups, address_share_percent); more are not taken"
    )
    assert shares.put(5_000, "10.0.0.2", 1) is None
    assert shares.put(0, "10.0.0.2", 1) is None  # it goes over to the other address
    assert shares.put(5_001, "10.0.0.1", 1) is None


def test_a_thing_may_count_as_several() -> None:
    shares: Shares[str] = Shares("partitions", "max_partitions", 1_000)
    assert shares.put("a", "10.0.0.1", 1, 400) is None
    assert shares.put("b", "10.0.0.1", 1, 200) == (
        "400 partitions from 10.0.0.1, its share of 1000 (max_partitions, address_share_percent);"
        " 200 more are not taken"
    )
    assert shares.put("b", "10.0.0.1", 1, 100) is None
    assert len(shares) == 500
    shares.drop("a")
    assert len(shares) == 100


def test_what_is_there_already_counts_whatever_the_limits_are_and_may_shrink() -> None:
    memory = Memory(1 << 20)
    shares: Shares[str] = Shares("offsets", "max_offsets", 1, memory, part=4)
    shares.take("a", "10.0.0.1", 400_000)
    shares.take("b", None, 0)
    assert (len(shares), memory.kept) == (2, 400_000)
    assert shares.put("a", "10.0.0.1", 300_000) is None
    assert shares.put("c", "10.0.0.1", 1) == "2 offsets, more are not taken (max_offsets)"
    shares.shrink("a", 100)
    shares.shrink("a", 200)
    assert shares.size == memory.kept == 100
    assert shares.put("a", "10.0.0.1", 400_000) is not None
    assert shares.size == 100
