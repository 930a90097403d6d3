"""Where a reset puts a group: inside the log, as was asked; and files of offsets say what plans say."""

from __future__ import annotations

import asyncio
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client import Admin, OffsetMove, ResetPlan, ResetTo, offsets_from_csv, offsets_to_csv
from penstock.client.admin.groups import Scope, execute, plan_reset
from penstock.errors import ServerError, UsageError
from penstock.interfaces import FoundOffset, GroupDescription, GroupMember
from penstock.model import Committed, OffsetSpec, Partition
from tests.conformance.fake_log import FakeLog

ADDRESS = "fake://h:1"
PLACE = Partition("t", 0)
names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
partitions = st.builds(Partition, names, st.integers(0, 2**31 - 1), st.text(st.characters(exclude_categories=["Cs"])))
offsets = st.integers(0, 2**63 - 1)


@given(st.dictionaries(names, st.dictionaries(partitions, offsets, min_size=1), min_size=1))
def test_what_is_exported_is_what_is_read(plans: dict[str, dict[Partition, int]]) -> None:
    written = [
        ResetPlan(group, tuple(OffsetMove(at, None, to) for at, to in of.items())) for group, of in plans.items()
    ]
    assert offsets_from_csv(offsets_to_csv(written, with_group=True)) == plans
    alone = written[0]
    assert offsets_from_csv(offsets_to_csv([alone], with_group=False), "g") == {"g": plans[alone.group]}


@given(st.text())
def test_any_text_is_read_or_refused_with_its_line(text: str) -> None:
    try:
        offsets_from_csv(text, "g")
    except UsageError as error:
        assert error.message.startswith("line ")  # noqa: PT017 - most texts are refused, and some are not


def filled(log: FakeLog, committed: int | None) -> Admin:
    """Offsets 3 to 9 are there."""
    log.write("t", [b"%d" % number for number in range(9)])
    log.partitions[PLACE].start = 3
    admin = Admin(ADDRESS)
    if committed is not None:
        admin.commit("g", {PLACE: committed})
    return admin


@pytest.mark.parametrize(
    ("to", "after", "why"),
    [
        (ResetTo.earliest(), 3, ""),
        (ResetTo.latest(), 9, ""),
        (ResetTo.current(), 5, ""),
        (ResetTo.offset(2), 3, "2 is before the beginning"),
        (ResetTo.offset(9), 9, ""),
        (ResetTo.offset(10), 9, "10 is behind the end"),
        (ResetTo.offset(-1), 3, "-1 is before the beginning"),
        (ResetTo.shift(-2), 3, ""),
        (ResetTo.shift(-3), 3, "2 is before the beginning"),
        (ResetTo.shift(5), 9, "10 is behind the end"),
        (ResetTo.to({PLACE: 4}), 4, ""),
    ],
    ids=str,
)
def test_a_place_outside_of_the_log_becomes_its_nearer_end(log: FakeLog, to: ResetTo, after: int, why: str) -> None:
    with filled(log, 5) as admin:
        plan = admin.reset_offsets("g", to)
    assert plan == ResetPlan("g", (OffsetMove(PLACE, 5, after, why),))


def test_what_the_log_has_lost_stays_where_it_is_if_that_is_asked_for(log: FakeLog) -> None:
    with filled(log, 1) as admin:
        assert admin.reset_offsets("g", ResetTo.current()).moves[0].after == 1
        assert admin.reset_offsets("g", ResetTo.shift(1)).moves[0].after == 3


def test_a_group_that_stands_behind_the_end_has_a_lag_below_nothing(log: FakeLog) -> None:
    with filled(log, 12) as admin:
        (found,) = admin.group_offsets("g")
    assert (found.lag, found.seconds) == (-3, None)


def test_an_end_that_nobody_knows_is_none(log: FakeLog) -> None:
    with filled(log, 5) as admin:
        admin.commit("g", {Partition("gone", 0): 5})
        found = {
            each.partition: (each.committed, each.end, each.lag, each.seconds) for each in admin.group_offsets("g")
        }
    assert found[Partition("gone", 0)] == (5, None, None, None)


def test_what_cannot_be_meant_is_refused(log: FakeLog) -> None:
    with filled(log, None) as admin:
        assert admin.reset_offsets("g", ResetTo.current(), partitions=[PLACE]).moves[0].why.endswith("the end")
        with pytest.raises(UsageError, match="nothing is committed in t-0"):
            admin.reset_offsets("g", ResetTo.shift(1), partitions=[PLACE])
        with pytest.raises(UsageError, match="must be a list"):
            admin.reset_offsets("g", ResetTo.earliest(), topics="t")
        with pytest.raises(UsageError, match="no group named absent"):
            admin.reset_offsets("absent", ResetTo.earliest())
    with pytest.raises(UsageError, match="in the future"):
        ResetTo.ago(timedelta(seconds=-1))
    with pytest.raises(UsageError, match="before 1970"):
        ResetTo.time(-1)


class _Joined:
    """A log whose group gets a member between the look and the commit; admin of itself."""

    def __init__(self) -> None:
        self.members: tuple[GroupMember, ...] = ()

    def admin(self) -> _Joined:
        return self

    async def describe_group(self, group: str) -> GroupDescription:
        return GroupDescription(group, "Stable" if self.members else "Empty", "", None, self.members)

    async def committed(self, group: str, partitions: object) -> dict[Partition, Committed]:
        return {PLACE: Committed(5, "noted")}

    async def topics(self, names: object, *, fresh: bool) -> dict[str, object]:
        return {}

    async def offsets(self, wanted: dict[Partition, OffsetSpec]) -> dict[Partition, FoundOffset]:
        return {each: FoundOffset(5) for each in wanted}

    async def commit(self, group: str, offsets: dict[Partition, Committed]) -> None:
        assert offsets == {PLACE: Committed(5, "noted")}  # what stays keeps what was noted beside it
        self.members = (GroupMember("m", None, "late", "", frozenset()),)
        raise ServerError("no", code=25, name="UNKNOWN_MEMBER_ID")


def test_a_member_that_comes_in_between_is_the_reason_that_is_told() -> None:
    async def body() -> None:
        log = _Joined()
        _, commits = await plan_reset(log, "g", ResetTo.latest(), Scope(None, None), lambda: 0)  # type: ignore[arg-type]
        with pytest.raises(UsageError, match=r"1 members \(late\)") as raised:
            await execute(log, "g", commits)  # type: ignore[arg-type]
        assert isinstance(raised.value.__cause__, ServerError)

    asyncio.run(body())
