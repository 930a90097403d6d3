"""``penstock topics``: list, describe, create, delete, grow."""

from __future__ import annotations

from typing import Annotated

from penstock.cli.arguments import Address, Argument, Header, Json, Option, client_options, pairs
from penstock.cli.output import Cell, note, show, with_nodes
from penstock.errors import UsageError

Names = Annotated[list[str], Argument(help="Topic names.")]
Config = Annotated[list[str] | None, Argument("--config", help="A topic setting as name=value; may be repeated.")]


def list_topics(
    address: Address,
    option: Option = None,
    internal: Annotated[bool, Argument("--internal", help="Internal topics too.")] = False,
    json: Json = False,
    header: Header = False,
) -> None:
    """List topics with their partition counts.

    Examples:
      penstock topics list kafka://127.0.0.1:9092
    """
    from penstock.client import Admin

    with Admin(address, **client_options(address, option)) as admin:
        found = admin.topics(internal=internal)
    rows: list[dict[str, Cell]] = [
        {"topic": name, "partitions": len(topic.partitions), "internal": topic.internal}
        for name, topic in sorted(found.items())
    ]
    show(rows, ("topic", "partitions", "internal"), as_json=json, header=header, title="Topics")


def describe(
    address: Address,
    names: Names,
    configs: Annotated[bool, Argument("--configs", help="The topics' settings instead of their partitions.")] = False,
    option: Option = None,
    json: Json = False,
    header: Header = False,
) -> None:
    """Show each partition's leader and offsets, or with --configs each setting, its default and who set it.

    Examples:
      penstock topics describe kafka://127.0.0.1:9092 flights
    """
    from penstock.client import Admin

    if configs:
        _describe_configs(address, names, option, json=json, header=header)
        return
    with Admin(address, **client_options(address, option)) as admin:
        found = admin.topics(names)
        absent = sorted(set(names) - set(found))
        if absent:
            raise UsageError(f"no topic named {', '.join(absent)}", hint="`penstock topics list` shows what there is")
        partitions = [info.partition for topic in found.values() for info in topic.partitions]
        starts, ends = admin.beginning_offsets(partitions), admin.end_offsets(partitions)
    rows: list[dict[str, Cell]] = [
        {
            "topic": info.partition.topic,
            "node": info.partition.node,
            "partition": info.partition.id,
            "leader": info.leader.name if info.leader else None,
            "start": starts[info.partition],
            "end": ends[info.partition],
        }
        for topic in found.values()
        for info in topic.partitions
    ]
    columns = with_nodes(rows, ("topic", "partition", "leader", "start", "end"))
    show(rows, columns, as_json=json, header=header, title="Partitions")


def _describe_configs(address: str, names: list[str], option: list[str] | None, *, json: bool, header: bool) -> None:
    from penstock.client import Admin

    with Admin(address, **client_options(address, option)) as admin:
        found = {name: admin.describe_topic_config(name) for name in names}
    rows: list[dict[str, Cell]] = [
        {
            "topic": name,
            "setting": setting,
            "value": each.value,
            "default": each.default,
            "source": each.source or None,
        }
        for name, settings in found.items()
        for setting, each in sorted(settings.items())
    ]
    show(rows, ("topic", "setting", "value", "default", "source"), as_json=json, header=header, title="Settings")


def alter(
    address: Address,
    names: Names,
    config: Config = None,
    delete_config: Annotated[
        list[str] | None,
        Argument("--delete-config", help="A setting that goes back to its default; may be repeated."),
    ] = None,
    dry_run: Annotated[bool, Argument("--dry-run", help="The server checks the change and does not make it.")] = False,
    option: Option = None,
) -> None:
    """Change settings of topics; all others stay as they are. `penstock topics grow` adds partitions.

    Examples:
      penstock topics alter kafka://127.0.0.1:9092 flights --config retention.ms=86400000 --dry-run
      penstock topics alter kafka://127.0.0.1:9092 flights --config retention.ms=86400000
      penstock topics alter kafka://127.0.0.1:9092 flights --delete-config retention.ms
    """
    from penstock.client import Admin

    changed: dict[str, str | None] = {**pairs(config)}
    if both := sorted(set(changed) & set(delete_config or ())):
        raise UsageError(f"{', '.join(both)} is set and deleted", hint="Give one of them")
    changed |= dict.fromkeys(delete_config or ())
    if not changed:
        raise UsageError("there is nothing to change", hint="Give --config name=value or --delete-config name")
    with Admin(address, **client_options(address, option)) as admin:
        for name in names:
            admin.alter_topic_config(name, changed, dry_run=dry_run)
            note(f"{name} can be changed, nothing was" if dry_run else f"changed {name}")


def create(
    address: Address,
    names: Names,
    partitions: Annotated[int, Argument("--partitions", "-p", help="-1: the server's default.")] = -1,
    replication: Annotated[int, Argument("--replication", help="-1: the server's default.")] = -1,
    config: Config = None,
    option: Option = None,
) -> None:
    """Create topics; returns when they can be written to.

    Examples:
      penstock topics create kafka://127.0.0.1:9092 orders -p 4 --config retention.ms=86400000
      penstock topics create tubemq://127.0.0.1:8715 payments
    """
    from penstock.client import Admin
    from penstock.interfaces import NewTopic

    settings = pairs(config)
    with Admin(address, **client_options(address, option)) as admin:
        admin.create_topics([NewTopic(name, partitions, replication, settings) for name in names])
    note(f"created {', '.join(names)}")


def delete(address: Address, names: Names, option: Option = None) -> None:
    """Delete topics and everything in them."""
    from penstock.client import Admin

    with Admin(address, **client_options(address, option)) as admin:
        admin.delete_topics(names)
    note(f"deleted {', '.join(names)}")


def grow(
    address: Address,
    name: Annotated[str, Argument(help="Topic name.")],
    partitions: Annotated[int, Argument("--partitions", "-p", help="The total number of partitions.")],
    option: Option = None,
) -> None:
    """Add partitions. Keys then map to other partitions than before."""
    from penstock.client import Admin

    with Admin(address, **client_options(address, option)) as admin:
        admin.add_partitions(name, partitions)
    note(f"{name} has {partitions} partitions")
