"""When committed offsets are forgotten: by a node's option, and by what their commits said; a matter of two times."""

from __future__ import annotations

import pytest

from penstock.interfaces import CommittedUntil
from penstock.model import Committed, Partition
from penstock.protocols.kafka.groups.classic_group import Group, State
from penstock.protocols.kafka.groups.consumer_group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.server.group_service import has_expired, newer_has_expired

READ, UNREAD = Partition("read", 0), Partition("unread", 0)
COMMITTED_MS, LEFT_MS, RETENTION_MS, OWN_MS = 1_000, 5_000, 100, 30
AS_OTHERS = Committed(7, timestamp_ms=COMMITTED_MS)
SOON = CommittedUntil(7, timestamp_ms=COMMITTED_MS, expires_ms=COMMITTED_MS + OWN_MS)
LATE = CommittedUntil(7, timestamp_ms=COMMITTED_MS, expires_ms=COMMITTED_MS + 1_000_000)


def group(state: State, subscribed: frozenset[str] | None = frozenset({"read"})) -> Group:
    found = Group("g")
    found.protocol_type, found.state, found.state_since_ms, found.subscribed = "consumer", state, LEFT_MS, subscribed
    return found


def ends(at_ms: int, found: Group | None, committed: Committed, partition: Partition = UNREAD) -> None:
    """It is there until then, and not from then on."""
    assert not has_expired(found, partition, committed, at_ms - 1, RETENTION_MS)
    assert has_expired(found, partition, committed, at_ms, RETENTION_MS)


def test_without_a_time_of_its_own_an_offset_goes_by_the_option() -> None:
    ends(COMMITTED_MS + RETENTION_MS, None, AS_OTHERS)
    ends(LEFT_MS + RETENTION_MS, group(State.EMPTY), AS_OTHERS, READ)
    ends(COMMITTED_MS + RETENTION_MS, group(State.STABLE), AS_OTHERS)


@pytest.mark.parametrize("own", [SOON, LATE])
@pytest.mark.parametrize("found", [None, group(State.EMPTY), group(State.STABLE)])
def test_its_own_time_counts_instead_sooner_and_later_and_since_the_commit(
    found: Group | None, own: CommittedUntil
) -> None:
    ends(own.expires_ms, found, own)


@pytest.mark.parametrize("own", [AS_OTHERS, SOON])
def test_what_members_read_and_groups_that_share_out_lose_nothing(own: Committed) -> None:
    for found, partition in (
        (group(State.STABLE), READ),
        (group(State.STABLE, None), UNREAD),
        (group(State.PREPARING), UNREAD),
        (group(State.COMPLETING), UNREAD),
    ):
        assert not has_expired(found, partition, own, 2**62, RETENTION_MS)


def test_newer_groups_lose_by_the_same_times_what_no_member_reads() -> None:
    found = ConsumerGroup("g")
    for own, until in ((AS_OTHERS, COMMITTED_MS + RETENTION_MS), (SOON, SOON.expires_ms), (LATE, LATE.expires_ms)):
        assert not newer_has_expired(found, READ, own, until - 1, RETENTION_MS)
        assert newer_has_expired(found, READ, own, until, RETENTION_MS)
    one = ConsumerMember("one", None)
    one.names = ("read",)
    found.add(one)
    assert not newer_has_expired(found, READ, SOON, 2**62, RETENTION_MS)
    assert newer_has_expired(found, UNREAD, SOON, SOON.expires_ms, RETENTION_MS)
