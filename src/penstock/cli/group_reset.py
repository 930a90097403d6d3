"""``penstock groups reset-offsets``: shows the new offsets of groups, and commits them with ``--execute``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from penstock.cli.arguments import Address, Argument, Csv, Header, Json, Option, client_options
from penstock.cli.output import Cell, note, show, with_nodes
from penstock.errors import ConfigError, PenstockError, UsageError

if TYPE_CHECKING:
    from penstock.client import Admin, ResetPlan, ResetTo
    from penstock.interfaces import GroupListing, GroupListings
    from penstock.model import Partition

# The groups and partitions that a command line names.
Group = Annotated[str, Argument(help="Group name.")]
Groups = Annotated[list[str] | None, Argument(help="Group names.")]
AllGroups = Annotated[bool, Argument("--all-groups", help="All groups of consumers.")]
Topics = Annotated[
    list[str] | None,
    Argument("--topic", "-t", help="A topic, or partitions of it as topic:0,1; may be repeated."),
]

_CONSUMERS: Final = frozenset({"", "consumer"})
_OTHER_TYPES: Final = frozenset({"share", "streams"})


def chosen_groups(admin: Admin, names: Sequence[str] | None, all_groups: bool) -> list[str]:
    """The named groups, or all; raises UsageError for neither and for both."""
    if bool(names) == all_groups:
        raise UsageError(
            "give either names of groups or --all-groups",
            hint="`penstock groups list` shows what there is",
        )
    if names:
        return list(dict.fromkeys(names))
    found = admin.groups()
    tell_unreachable(found)
    return sorted(each.group for each in found if _of_consumers(each))


def tell_unreachable(found: GroupListings) -> None:
    """Print the nodes whose groups are missing from a list."""
    for node in found.unreachable:
        note(f"node {node.name} ({node.endpoint}) does not answer: groups that it coordinates are not listed")


def _of_consumers(each: GroupListing) -> bool:
    """Whether it is a consumers' group. Connect's workers, share groups and streams groups handle their own offsets."""
    return each.protocol_type in _CONSUMERS and each.type not in _OTHER_TYPES


def chosen_partitions(admin: Admin, given: Iterable[str]) -> list[Partition]:
    """The partitions of ``--topic``. If nodes own partitions, ``topic:0`` is the partition 0 of every node, and
    ``topic:0@node`` that of one. Raises UsageError for a partition that does not exist."""
    asked = [_read(each) for each in given]
    topics = admin.topics({topic for topic, _ in asked})
    found: dict[Partition, None] = {}
    for topic, wanted in asked:
        if topic not in topics:
            raise UsageError(f"no topic named {topic}", hint="`penstock topics list` shows what there is")
        there = [info.partition for info in topics[topic].partitions]
        found |= dict.fromkeys(there if wanted is None else _matching(there, wanted))
    return sorted(found)


def _read(given: str) -> tuple[str, list[Partition] | None]:
    from penstock.client.admin.groups import read_partition

    topic, colon, numbers = given.partition(":")
    if not colon:
        return given, None
    wanted = [read_partition(topic, each) for each in numbers.split(",")]
    partitions = [each for each in wanted if each is not None]
    if not topic or len(partitions) < len(wanted):
        raise UsageError(f"{given!r} is not a topic with partitions", hint="for example flights:0,2")
    return topic, partitions


def _matching(there: Sequence[Partition], wanted: Iterable[Partition]) -> Iterable[Partition]:
    for each in wanted:
        fitting = [at for at in there if at.id == each.id and each.node in ("", at.node)]
        if not fitting:
            raise UsageError(f"there is no partition {each}", hint="`penstock topics describe` shows what there is")
        yield from fitting


_DURATION: Final = re.compile(
    r"P(?:(?P<days>\d{1,7})D)?(?:T(?=\d)(?:(?P<hours>\d{1,9})H)?(?:(?P<minutes>\d{1,9})M)?"
    r"(?:(?P<seconds>\d{1,9}(?:\.\d{1,9})?)S)?)?"
)
_MS: Final = timedelta(milliseconds=1)
_1970: Final = datetime(1970, 1, 1, tzinfo=UTC)


def reset_offsets(
    address: Address,
    groups: Groups = None,
    all_groups: AllGroups = False,
    topic: Topics = None,
    all_topics: Annotated[
        bool, Argument("--all-topics", help="All partitions in which the group has committed something.")
    ] = False,
    to_earliest: Annotated[bool, Argument("--to-earliest", help="To the first record.")] = False,
    to_latest: Annotated[bool, Argument("--to-latest", help="Behind the last record.")] = False,
    to_current: Annotated[
        bool, Argument("--to-current", help="To where it stands, or the end where it has committed nothing.")
    ] = False,
    to_datetime: Annotated[
        str | None,
        Argument("--to-datetime", help="To the first record since YYYY-MM-DDTHH:mm:SS.sss, in UTC or with ±hh:mm."),
    ] = None,
    by_duration: Annotated[
        str | None, Argument("--by-duration", help="To the first record since so long ago: PnDTnHnMnS.")
    ] = None,
    shift_by: Annotated[int | None, Argument("--shift-by", help="So many offsets on; back if it is below 0.")] = None,
    to_offset: Annotated[int | None, Argument("--to-offset", help="To this offset.")] = None,
    from_file: Annotated[
        Path | None, Argument("--from-file", help="To the offsets of a file that --export has written.")
    ] = None,
    execute: Annotated[bool, Argument("--execute", help="Do it; without this it is only said.")] = False,
    export: Annotated[
        bool, Argument("--export", help="Print CSV, for --from-file: [group,]topic,partition,offset.")
    ] = False,
    option: Option = None,
    json: Json = False,
    csv: Csv = False,
    header: Header = False,
) -> None:
    """Put groups without members somewhere else. Says what would be done; --execute does it.

    A place outside of the log becomes its nearer end, which the column "why" says.

    Examples:
      penstock groups reset-offsets kafka://127.0.0.1:9092 stats --topic flights:0 --to-earliest
      penstock groups reset-offsets kafka://127.0.0.1:9092 stats --all-topics --by-duration PT2H --execute
      penstock groups reset-offsets kafka://127.0.0.1:9092 stats --all-topics --to-current --export
    """
    from penstock.client import Admin, ResetTo

    to = _one_of(
        {
            "--to-earliest": ResetTo.earliest() if to_earliest else None,
            "--to-latest": ResetTo.latest() if to_latest else None,
            "--to-current": ResetTo.current() if to_current else None,
            "--to-datetime": None if to_datetime is None else ResetTo.time(read_time_ms(to_datetime)),
            "--by-duration": None if by_duration is None else ResetTo.ago(read_duration(by_duration)),
            "--shift-by": None if shift_by is None else ResetTo.shift(shift_by),
            "--to-offset": None if to_offset is None else ResetTo.offset(to_offset),
            "--from-file": from_file,
        }
    )
    if (bool(topic) + all_topics) != (from_file is None):
        raise UsageError(
            "--from-file already names the partitions" if from_file else "give either --topic or --all-topics",
            hint="Leave --topic and --all-topics out" if from_file else "Give --topic, or --all-topics",
        )
    if export and (json or csv):
        raise UsageError("--export is a format of its own: --json and --csv contradict it")
    with Admin(address, **client_options(address, option)) as admin:
        names = chosen_groups(admin, groups, all_groups)
        where = chosen_partitions(admin, topic) if topic else None
        asked = dict.fromkeys(names, to) if isinstance(to, ResetTo) else _from_file(to, names)
        plans, refused = _each(admin, asked, where, execute)
    try:
        _print(plans, names, export=export, json=json, csv=csv, header=header)
    except OSError:
        if any(plan.executed for plan in plans):
            note("the offsets were reset; only this output is incomplete")
        raise
    if refused:
        raise refused[0]


def _one_of(targets: Mapping[str, ResetTo | Path | None]) -> ResetTo | Path:
    given = {name: to for name, to in targets.items() if to is not None}
    if len(given) != 1:
        several = f"these are several: {' '.join(given)}" if given else "there is none"
        raise UsageError(f"give one of {', '.join(targets)}: {several}")
    return next(iter(given.values()))


def _each(
    admin: Admin, asked: Mapping[str, ResetTo], where: list[Partition] | None, execute: bool
) -> tuple[list[ResetPlan], list[PenstockError]]:
    """Reset group by group; a group with members does not stop the others. The caller raises the first error."""
    plans: list[ResetPlan] = []
    refused: list[PenstockError] = []
    for name, to in asked.items():
        try:
            plans.append(admin.reset_offsets(name, to, partitions=where, execute=execute))
        except PenstockError as error:
            if refused:
                note(f"penstock: {error}")
            refused.append(error)
    return plans, refused


def _print(plans: list[ResetPlan], names: list[str], *, export: bool, json: bool, csv: bool, header: bool) -> None:
    from penstock.client import offsets_to_csv

    if plans and not all(plan.executed for plan in plans):
        note("nothing was changed: --execute does it")
    if export:
        sys.stdout.write(offsets_to_csv(plans, with_group=len(names) > 1))
        sys.stdout.flush()
        return
    rows: list[dict[str, Cell]] = [
        {
            "group": plan.group,
            "topic": move.partition.topic,
            "node": move.partition.node,
            "partition": move.partition.id,
            "before": move.before,
            "after": move.after,
            "why": move.why or None,
        }
        for plan in plans
        for move in plan.moves
    ]
    columns = with_nodes(rows, ("group", "topic", "partition", "before", "after", "why"))
    if plans:
        show(rows, columns, as_json=json, as_csv=csv, header=header, title="New offsets")


def _from_file(file: Path, names: list[str]) -> Mapping[str, ResetTo]:
    from penstock.client import ResetTo, offsets_from_csv

    try:
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{file} is not text: {error}") from None
    found = offsets_from_csv(text, names[0] if len(names) == 1 else None)
    if absent := sorted(set(names) - set(found)):
        raise UsageError(f"{file} has nothing of group {', '.join(absent)}")
    if others := sorted(set(found) - set(names)):
        note(f"left out of {file}: group {', '.join(others)}, which the command does not name")
    return {name: ResetTo.to(found[name]) for name in names}


def read_duration(text: str) -> timedelta:
    """``P1DT2H``: days, hours, minutes, seconds. Raises ConfigError."""
    found = _DURATION.fullmatch(text)
    if found is None or not any(found.groupdict().values()):
        raise ConfigError(f"{text!r} is not a duration", hint="Write PnDTnHnMnS, for example PT90M or P1DT12H")
    return timedelta(**{name: float(value) for name, value in found.groupdict().items() if value})


def read_time_ms(text: str) -> int:
    """Milliseconds since 1970; a time without a zone is UTC, independent of this machine's zone. Raises ConfigError."""
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        raise ConfigError(
            f"{text!r} is not a time", hint="Write YYYY-MM-DDTHH:mm:SS.sss, in UTC or with ±hh:mm"
        ) from None
    return ((found if found.tzinfo else found.replace(tzinfo=UTC)) - _1970) // _MS
