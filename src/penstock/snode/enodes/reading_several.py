"""Reading from several logs for one answer, and waiting for any of them to grow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TypeVar

from penstock.errors import PenstockError
from penstock.model import Partition
from penstock.seams.enode import Budget, Enode, Extent, Fetched, FetchPart
from penstock.seams.runtime import Promise, Runtime
from penstock.snode.enodes.member import Member
from penstock.snode.enodes.side_by_side import side_by_side

__all__ = ["Waiting", "extents_of", "fetch_from"]

T = TypeVar("T")
Found = list[Fetched | PenstockError]


async def fetch_from(asked: Mapping[Member, Sequence[FetchPart]], budget: Budget, runtime: Runtime) -> list[Found]:
    """The answers of each. Those that are near come first; those that are far share what they leave of ``budget``."""
    found: dict[Member, Found] = {}
    for member, parts in asked.items():
        if member.enode.near or len(asked) == 1:
            found[member] = await _fetch(member, parts, budget)
    far = [member for member in asked if member not in found]
    shares = [_share(budget, len(far)) for _ in far]
    work = [partial(_fetch, member, asked[member], share) for member, share in zip(far, shares, strict=True)]
    for member, answers in zip(far, await side_by_side(runtime, work), strict=True):
        assert not isinstance(answers, PenstockError), "errors have their places"
        found[member] = answers
        for each in answers:
            if isinstance(each, Fetched) and len(each.data):
                budget.take(each.data)
    return [found[member] for member in asked]


def _share(budget: Budget, among: int) -> Budget:
    return Budget(
        budget.left // among,
        budget.quick // among,
        budget.room // among,
        max(1, budget.files // among),
        budget.taken,
    )


async def _fetch(member: Member, parts: Sequence[FetchPart], budget: Budget) -> Found:
    if not member.enode.abilities.epochs:
        parts = [part._replace(leader_epoch=-1, last_epoch=-1) for part in parts]
    try:
        return await member.rows(lambda enode: enode.fetch(parts, budget))
    except PenstockError as error:
        return [error] * len(parts)


async def extents_of(
    asked: Mapping[Member, Sequence[Partition]], runtime: Runtime
) -> list[list[Extent | PenstockError]]:
    """The answers of each."""
    found = await side_by_side(runtime, [partial(_extents, *each) for each in asked.items()])
    assert not any(isinstance(each, PenstockError) for each in found), "errors have their places"
    return [each for each in found if not isinstance(each, PenstockError)]


async def _extents(member: Member, partitions: Sequence[Partition]) -> list[Extent | PenstockError]:
    try:
        return await member.rows(lambda enode: enode.extents(partitions))
    except PenstockError as error:
        return [error] * len(partitions)


class Waiting:
    """Promises that are set when any of several logs sets its own."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime = runtime
        self._parts: dict[Promise[None], Sequence[tuple[Enode, Promise[None]]]] = {}

    def begin(self, known: Mapping[Enode, Mapping[Partition, int]]) -> Promise[None]:
        """See `Enode.arrival`; of no log at all it is never set."""
        parts = [(enode, enode.arrival(its)) for enode, its in known.items()]
        if len(parts) == 1:
            told = parts[0][1]
        else:
            told = self._runtime.promise()
            for _, part in parts:
                self._runtime.spawn(_pass_on(part, told), "wait for one of several logs")
        self._parts[told] = parts
        return told

    def end(self, told: Promise[None]) -> None:
        """See `Enode.forget_arrival`."""
        for enode, part in self._parts.pop(told, ()):
            enode.forget_arrival(part)
            part.set(None)  # who waits to pass it on ends with that


async def _pass_on(part: Promise[None], told: Promise[None]) -> None:
    await part
    told.set(None)
