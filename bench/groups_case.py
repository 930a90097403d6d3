"""The members of one server's groups, in their own process: python -m bench.groups_case JOB prints phases and memory.

In a phase all members do the same thing; its figures are seconds, and CPU seconds of the server and of this process.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bench.clients.group_classic import ClassicMember, check_dealt, settle
from bench.clients.group_line import Line, Refused, at_once, opened, raise_limit
from bench.clients.group_newer import NewerMember, converge
from bench.servers import ROOT, Server, environment
from penstock import AsyncAdmin
from penstock.net.loops import new_loop
from penstock.protocols.kafka.wire.coordinator_admin import (
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    ListGroupsRequest,
    ListGroupsResponse,
)

__all__ = ["PARTS", "Meter", "run"]

LAPS = 3
"""Rounds of heartbeats and of commits by all members."""


class Meter:
    """The figures of one server."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.phases: dict[str, Mapping[str, float]] = {}
        self.memory: dict[str, float] = {}

    async def phase(self, name: str, work: Callable[[], Awaitable[Any]], *, count: int = 1) -> Any:
        """Run and measure ``work``; ``count`` is its number of requests, if the phase is about requests."""
        client, server, begun = time.process_time(), self.server.cpu_s(), time.perf_counter()
        result = await work()
        seconds = time.perf_counter() - begun
        self.phases[name] = {
            "seconds": seconds,
            "server_s": self.server.cpu_s() - server,
            "client_s": time.process_time() - client,
            "count": count,
        }
        return result

    def look(self, when: str) -> None:
        """Record the server's memory now."""
        self.memory[when] = self.server.resident_mb()


@asynccontextmanager
async def lines_to(bootstrap: str, count: int, group: str) -> AsyncIterator[list[Line]]:
    """``count`` connections, until the block ends."""
    raise_limit(count)
    lines = await opened(bootstrap, count, group)
    try:
        yield lines
    finally:
        for line in lines:
            line.close()


async def classic(meter: Meter, job: Mapping[str, Any]) -> None:
    """One classic group: all join, one more joins, one leaves."""
    count, group, topic, partitions = job["members"], job["group"], job["topic"], job["partitions"]
    meter.look("before")
    async with lines_to(meter.server.bootstrap, count + 1, group) as lines:
        *members, last = [ClassicMember(line, group, topic, partitions) for line in lines]
        await meter.phase("all join", lambda: settle(members, members))
        check_dealt(members, partitions)
        meter.look("with it")
        await meter.phase("heartbeats", lambda: _laps(members, _beat_calmly), count=LAPS * count)
        await meter.phase("one more joins", lambda: settle([*members, last], [last]))
        check_dealt([*members, last], partitions)
        first = members[0]  # the group's leader
        await meter.phase("one leaves", lambda: _without(first, [*members[1:], last]))
        check_dealt([*members[1:], last], partitions)
        await at_once(member.leave() for member in [*members[1:], last])
        await _deleted(lines[0], [group])
    meter.look("after")


async def _without(leaver: ClassicMember, others: Sequence[ClassicMember]) -> None:
    await leaver.leave()
    await settle(others)


async def _laps(members: Sequence[ClassicMember], do: Callable[[ClassicMember], Awaitable[Any]]) -> None:
    for _ in range(LAPS):
        await at_once(do(member) for member in members)


async def _beat_calmly(member: ClassicMember) -> None:
    if not await member.beat():
        raise RuntimeError("a rebalance that nobody asked for")


async def newer(meter: Meter, job: Mapping[str, Any]) -> None:
    """One group of the newer protocol: all join, one more joins, one leaves."""
    count, group, topic, partitions = job["members"], job["group"], job["topic"], job["partitions"]
    meter.look("before")
    async with lines_to(meter.server.bootstrap, count + 1, group) as lines:
        *members, last = [NewerMember(line, group, topic) for line in lines]
        beats = await meter.phase("all join", lambda: converge(members, partitions))
        meter.phases["all join"] = {**meter.phases["all join"], "beats": beats}
        meter.look("with it")
        await meter.phase("heartbeats", lambda: _beats(members), count=LAPS * count)
        await meter.phase("one more joins", lambda: converge([*members, last], partitions))
        first = members[0]
        await meter.phase("one leaves", lambda: _converged_without(first, [*members[1:], last], partitions))
        await at_once(member.leave() for member in [*members[1:], last])
        await _deleted(lines[0], [group])
    meter.look("after")


async def _beats(members: Sequence[NewerMember]) -> None:
    for _ in range(LAPS):
        await at_once(member.beat() for member in members)


async def _converged_without(leaver: NewerMember, others: Sequence[NewerMember], partitions: int) -> None:
    await leaver.leave()
    await converge(others, partitions)


async def many(meter: Meter, job: Mapping[str, Any]) -> None:
    """Many groups of one member: they join, commit, send heartbeats, are listed and described."""
    count, topic, bootstrap = job["groups"], job["topic"], meter.server.bootstrap
    names = [f"{job['group']}-{number:05d}" for number in range(count)]
    meter.look("before")
    async with lines_to(bootstrap, count, names[0]) as lines:
        members = [ClassicMember(line, name, topic, 1) for line, name in zip(lines, names, strict=True)]
        await meter.phase("all join", lambda: at_once(member.enter() for member in members))
        meter.look("with it")
        await meter.phase("commits", lambda: _laps(members, ClassicMember.commit), count=LAPS * count)
        await meter.phase("heartbeats", lambda: _laps(members, _beat_calmly), count=LAPS * count)
        await meter.phase("ListGroups", lambda: _listed(lines[0], names))
        await meter.phase("DescribeGroups, all at once", lambda: _described(lines[0], names))
        await _by_admin(meter, names)
        await meter.phase("penstock groups describe", lambda: asyncio.to_thread(_command, bootstrap, count))
        await at_once(member.leave() for member in members)
        await _deleted(lines[0], names)
    meter.look("after")


async def _listed(line: Line, names: Sequence[str]) -> None:
    answer = await line.ask(ListGroupsRequest(), ListGroupsResponse)
    if answer.error_code:
        raise Refused("ListGroups", answer.error_code)
    if missing := set(names) - {each.group_id for each in answer.groups}:
        raise RuntimeError(f"{len(missing)} groups are not listed")


async def _described(line: Line, names: Sequence[str]) -> None:
    answer = await line.ask(DescribeGroupsRequest(groups=names), DescribeGroupsResponse)
    _stable({each.group_id: (each.group_state, len(each.members)) for each in answer.groups}, names)


async def _by_admin(meter: Meter, names: Sequence[str]) -> None:
    async with AsyncAdmin(f"kafka://{meter.server.bootstrap}") as admin:
        await admin.describe_group(names[0])  # opens its connection
        listed = await meter.phase("Admin.groups()", admin.groups)
        if missing := set(names) - {each.group for each in listed}:
            raise RuntimeError(f"{len(missing)} groups are not listed")
        told = await meter.phase("Admin.describe_groups()", lambda: admin.describe_groups(names))
        _stable({name: (each.state, len(each.members)) for name, each in told.items()}, names)


def _stable(found: Mapping[str, tuple[str, int]], names: Sequence[str]) -> None:
    wrong = [name for name in names if found.get(name) != ("Stable", 1)]
    if wrong:
        raise RuntimeError(f"{len(wrong)} groups are not described as stable: {wrong[0]} is {found.get(wrong[0])}")


def _command(bootstrap: str, count: int) -> None:
    words = ["groups", "describe", f"kafka://{bootstrap}", "--all-groups", "--state", "--json"]
    line = [sys.executable, "-m", "penstock.cli", *words]
    run = subprocess.run(line, capture_output=True, text=True, check=False, env=environment(), cwd=ROOT)
    found = len(run.stdout.splitlines())
    if run.returncode or found < count:
        raise RuntimeError(f"{found} lines for {count} groups: {run.stderr[-500:]}")


async def _deleted(line: Line, names: Sequence[str]) -> None:
    answer = await line.ask(DeleteGroupsRequest(groups_names=names), DeleteGroupsResponse)
    for each in answer.results:
        if each.error_code:
            raise Refused(f"deleting {each.group_id}", each.error_code)


PARTS: Mapping[str, Callable[[Meter, Mapping[str, Any]], Awaitable[None]]] = {
    "classic": classic,
    "newer": newer,
    "many": many,
}


async def run(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Measure the part named in ``job``."""
    meter = Meter(Server("", job["bootstrap"], job["pid"]))
    await PARTS[job["part"]](meter, job)
    return {"phases": meter.phases, "memory": meter.memory}


if __name__ == "__main__":
    with asyncio.Runner(loop_factory=new_loop) as runner:
        print(json.dumps(runner.run(run(json.loads(sys.argv[1])))), flush=True)
