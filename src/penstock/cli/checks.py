"""``penstock doctor`` checks the machine and a log, and says what to do; ``penstock bench`` measures reads."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Final

from msgspec.structs import replace

from penstock.cli.arguments import Address, Argument, Header, Json, Option, client_options, topics_of
from penstock.cli.findings import Finding, of_this_machine
from penstock.cli.output import Cell, show
from penstock.errors import ConfigError, PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.client import Admin, RangeReader
    from penstock.model import TopicInfo
    from penstock.records import Messages

_ANY_TOPIC: Final = "penstock_doctor"
_PATIENCE: Final = {"api_timeout_ms": "3000"}
"""Short, since the user waits: three seconds are enough to find out whether the log responds."""


def doctor(
    address: Annotated[str, Argument(help="A log to try to reach, for example kafka://127.0.0.1:9092.")] = "",
    option: Option = None,
    json: Json = False,
    header: Header = False,
) -> None:
    """Check Python, Java, Spark, kernels and (with an address) the log. Ends 1 if something is missing or broken.

    Examples:
      penstock doctor
      penstock doctor kafka://127.0.0.1:9092/flights
    """
    found = [*of_this_machine(), *(_log(address, option) if address else ())]
    rows = ({"check": each.what, "status": each.status, "detail": each.detail} for each in found)
    show(rows, ("check", "status", "detail"), as_json=json, header=header, title="penstock doctor")
    raise SystemExit(1 if any(each.status == "missing" for each in found) else 0)


def _log(address: str, option: list[str] | None) -> Iterator[Finding]:
    from penstock.client import Admin
    from penstock.protocols import address_of

    named = address_of(address).topics
    with Admin(address, **client_options(address, option, _PATIENCE)) as admin:
        try:
            topics, unlisted = _topics(admin, named)
        except ConfigError:
            raise
        except PenstockError as error:
            yield Finding("log", "missing", f"{error} `penstock snode` starts a log of your own")
            return
    partitions = [info for topic in topics.values() for info in topic.partitions]
    what = f"only the topics that the address names were checked: {unlisted}" if unlisted else f"{len(topics)} topics"
    yield Finding("log", "ok", f"{address}: {what}, {len(partitions)} partitions")
    if absent := [name for name in named if name not in topics]:
        names = ", ".join(absent)
        server = replace(address_of(address), topics=(), options={})
        yield Finding(
            "topics", "missing", f"no topic named {names}: `penstock topics create {server} {' '.join(absent)}`"
        )
    if leaderless := [str(info.partition) for info in partitions if info.leader is None]:
        few = ", ".join(leaderless[:5]) + (", …" if len(leaderless) > 5 else "")
        yield Finding(
            "leaders", "missing", f"{len(leaderless)} partitions have no leader: {few}; look at their servers"
        )


def _topics(admin: Admin, named: tuple[str, ...]) -> tuple[Mapping[str, TopicInfo], UsageError | None]:
    """All topics; if a protocol does not list them without more options, the named ones, and its error.

    It always asks for a topic, to find out whether the log responds.
    """
    try:
        return admin.topics(internal=True), None
    except UsageError as error:
        return admin.topics(named or (_ANY_TOPIC,)), error


# ``penstock bench``: a quick speed check of one log.


def bench(
    address: Address,
    option: Option = None,
    limit: Annotated[
        int, Argument("--limit", least=1, help="Stop a topic after about this many records.")
    ] = 10_000_000,
    json: Json = False,
    header: Header = False,
) -> None:
    """Read all partitions of the address's topics into Arrow and print how fast. Nothing is committed.

    Examples:
      penstock bench kafka://127.0.0.1:9092/flights
    """
    from penstock.client import RangeReader

    topics = topics_of(address)
    rows: list[dict[str, Cell]] = []
    with RangeReader(address, **client_options(address, option)) as reader:
        for topic in topics:
            records = size = 0
            begun = time.perf_counter()
            for batch in _batches(reader, topic):
                records += len(batch)
                size += batch.to_arrow().nbytes
                if records >= limit:
                    break
            seconds = time.perf_counter() - begun
            rows.append(
                {
                    "topic": topic,
                    "records": records,
                    "seconds": round(seconds, 3),
                    "records_per_s": round(records / seconds),
                    "mb_per_s": round(size / seconds / 1e6, 1),
                }
            )
    show(
        rows, ("topic", "records", "seconds", "records_per_s", "mb_per_s"), as_json=json, header=header, title="Reading"
    )


def _batches(reader: RangeReader, topic: str) -> Iterator[Messages]:
    """All records of a topic, partition after partition. Raises UsageError if there is no such topic."""
    from penstock.model import LogRange, Offset, OffsetSpec

    found = reader.topics([topic]).get(topic)
    if found is None:
        raise UsageError(f"no topic named {topic}", hint="`penstock topics list` shows what there is")
    partitions = [info.partition for info in found.partitions]
    starts = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.EARLIEST)))
    ends = reader.offsets(dict.fromkeys(partitions, OffsetSpec(name=Offset.LATEST)))
    for partition in partitions:
        yield from reader.read(LogRange.of(partition, starts[partition].offset, ends[partition].offset))
