"""The recorded frames of tests/data/rocketmq, one by one. Reads files only; what they mean is the tests' business."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from penstock.protocols.rocketmq.wire.framing import RemotingCommand, RocketFraming, command_of

DATA = Path(__file__).parents[2] / "data" / "rocketmq"


@dataclass(frozen=True, slots=True)
class Recorded:
    """One whole frame; ``by_client`` was it sent by whoever had opened the connection."""

    where: str
    connection: int
    by_client: bool
    wire: bytes


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its answer; None where there is none: one-way, never answered, or not recorded any more."""

    where: str
    by_client: bool
    request: RemotingCommand
    answer: RemotingCommand | None


@cache
def files() -> tuple[str, ...]:
    """Names of the recordings, ``4.9/a_start.registration`` and the like."""
    return tuple(sorted(f"{file.parent.name}/{file.name.removesuffix('.jsonl')}" for file in DATA.glob("*/*.jsonl")))


@cache
def recorded(name: str) -> tuple[Recorded, ...]:
    """All frames of one recording, in the order in which they were seen."""
    rows = [json.loads(line) for line in (DATA / f"{name}.jsonl").read_text(encoding="ascii").splitlines()]
    return tuple(
        Recorded(f"{name}.jsonl:{number}", row["conn"], row["dir"] == "c2s", bytes.fromhex(row["hex"]))
        for number, row in enumerate(rows, 1)
    )


def command(frame: Recorded) -> RemotingCommand:
    """Cut one frame out of its bytes, as a transport would, and return what it says."""
    framing = RocketFraming(answers=not frame.by_client)
    wire = memoryview(frame.wire)
    assert framing.feed(wire[: framing.need()]) is None
    assert framing.need() == len(wire) - 4, frame.where
    found = framing.feed(wire[4:])
    assert found is not None
    said = command_of(found)
    assert (found.correlation, found.reply) == (said.opaque, said.is_answer)
    return said


def exchanges(name: str) -> Iterator[Exchange]:
    """Every request of a recording; each side numbers its own."""
    waiting: dict[tuple[int, bool, int], tuple[str, RemotingCommand]] = {}
    for frame in recorded(name):
        said = command(frame)
        if said.is_one_way:
            yield Exchange(frame.where, frame.by_client, said, None)
        elif said.is_answer:
            place = frame.connection, not frame.by_client, said.opaque
            if place in waiting:  # else it was asked before the recording began
                where, asked = waiting.pop(place)
                yield Exchange(where, not frame.by_client, asked, said)
        else:
            waiting[frame.connection, frame.by_client, said.opaque] = frame.where, said
    for (_, by_client, _), (where, asked) in waiting.items():
        yield Exchange(where, by_client, asked, None)
