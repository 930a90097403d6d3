"""The command line's verbs, and how one of them is chosen, parsed and run; `demo` and `spark` are defined here.

A verb is a function whose annotated parameters are its arguments. Its module is imported when it is called, and other
packages when it runs, because ``penstock --help`` must not wait for any of them.
"""

from __future__ import annotations

import argparse
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

from penstock._version import __version__
from penstock.cli.arguments import Argument, HelpText, Json, parsed, parser_of
from penstock.cli.output import note, replace_closed_streams, reporting_errors, show, write_standard_output_whole
from penstock.errors import UsageError
from penstock.extras import refusal

if TYPE_CHECKING:
    from penstock.spark import SparkSession

__all__ = ["ABOUT", "VERBS", "chosen", "function_of", "main", "parser_for", "run"]

ABOUT: Final[Mapping[str, str]] = {
    "": "Message logs (Kafka, RocketMQ, TubeMQ) to Spark, and a node that serves them.",
    "snode": "Serve topics to clients.",
    "topics": "Topics of a log.",
    "produce": "Send records to the address's one topic.",
    "consume": "Read the address's topics.",
    "groups": "Consumer groups.",
    "spark": "Streaming queries of Spark.",
    "demo": "Take 336,776 flights through a node and Spark.",
    "bench": "Read all partitions of the address's topics into Arrow and print how fast.",
    "doctor": "Check Python, Java, Spark, kernels and (with an address) the log.",
}
"""A line about each verb and group of verbs, for ``penstock --help``, which imports none of them."""

VERBS: Final[Mapping[str, str]] = {
    "snode": "snode.snode",
    "topics list": "topics.list_topics",
    "topics describe": "topics.describe",
    "topics alter": "topics.alter",
    "topics create": "topics.create",
    "topics delete": "topics.delete",
    "topics grow": "topics.grow",
    "produce": "produce.produce",
    "consume": "consume.consume",
    "groups explain": "groups.explain",
    "groups list": "groups.list_groups",
    "groups describe": "groups.describe",
    "groups reset-offsets": "group_reset.reset_offsets",
    "groups delete": "groups.delete",
    "groups delete-offsets": "groups.delete_offsets",
    "groups remove-members": "groups.remove_members",
    "spark convert-checkpoint": "app.convert_checkpoint",
    "demo": "app.demo",
    "bench": "checks.bench",
    "doctor": "checks.doctor",
}
"""The function of each verb, as ``module.function`` of this package."""

_EXAMPLES: Final = """\
Examples:
  penstock snode --store file:./data
  penstock topics create kafka://127.0.0.1:9092 departures -p 4
  penstock doctor kafka://127.0.0.1:9092"""


def main() -> None:
    """Run the command line; the entry point of the ``penstock`` script."""
    replace_closed_streams()
    write_standard_output_whole()
    run(sys.argv[1:])


def run(words: Sequence[str]) -> None:
    """Run a command line without its first word. Raises SystemExit for every end but a good one."""
    verb, rest = chosen(words)
    if verb == "snode":
        function_of(verb)(rest)
        return
    from penstock.cli.logs import log_as_asked

    with reporting_errors():
        log_as_asked()
        parser = parser_for(verb)
        if verb in VERBS:
            function_of(verb)(**parsed(parser, rest))
        elif rest:
            parser.parse_args(rest)
        else:
            parser.print_help(sys.stderr)
            raise SystemExit(2)


def chosen(words: Sequence[str]) -> tuple[str, Sequence[str]]:
    """The verb that a command line names, else the group of verbs, which may be ``""``; and the words after it."""
    for number in (2, 1):
        verb = " ".join(words[:number])
        if len(words) >= number and (verb in VERBS or verb in ABOUT):
            return verb, words[number:]
    return "", words


def parser_for(verb: str) -> argparse.ArgumentParser:
    """The parser of a verb, or of a command line that names only a group of verbs."""
    if verb == "snode":
        from penstock.cli.snode import arguments

        return arguments()
    return parser_of(verb, function_of(verb)) if verb in VERBS else _group_parser(verb)


def function_of(verb: str) -> Callable[..., None]:
    """The function of a verb."""
    module, _, name = VERBS[verb].partition(".")
    function: Callable[..., None] = getattr(import_module(f"penstock.cli.{module}"), name)
    return function


def _group_parser(group: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"penstock {group}".rstrip(),
        description=ABOUT[group],
        epilog=None if group else _EXAMPLES,
        formatter_class=HelpText,
        allow_abbrev=False,
    )
    if group:
        names = {verb.removeprefix(f"{group} "): verb for verb in VERBS if verb.startswith(f"{group} ")}
        lines = {name: inspect.cleandoc(function_of(verb).__doc__ or "") for name, verb in names.items()}
    else:
        parser.add_argument("--version", action="version", version=f"penstock {__version__}", help="Say which.")
        lines = {name: about for name, about in ABOUT.items() if name}
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for name, about in lines.items():
        commands.add_parser(name, help=" ".join(about.split("\n\n")[0].split()), add_help=False)
    return parser


def demo(
    out: Annotated[Path, Argument("--out", help="Folder for the results and all state.")] = Path("demo-out"),
    fresh: Annotated[bool, Argument("--fresh", help="Forget an earlier run in that folder.")] = False,
) -> None:
    """Take 336,776 flights through a node and Spark. Ends non-zero if any cell of the result is wrong."""
    try:
        from penstock.demo import main as run_demo
    except ModuleNotFoundError as error:
        raise refusal("demo", "the demo") from error

    raise SystemExit(run_demo(out, fresh))


def convert_checkpoint(
    checkpoint: Annotated[str, Argument(help="The query's checkpointLocation: a folder, or hdfs://…, s3a://…")],
    back: Annotated[bool, Argument("--back", help="From penstock to Spark's own connector.")] = False,
    dry_run: Annotated[bool, Argument("--dry-run", help="Only say what would be done.")] = False,
    stopped: Annotated[bool, Argument("--stopped", help="The query is stopped, however recent its log is.")] = False,
    source: Annotated[list[str] | None, Argument("--source", help="Place or name of a source that is Kafka's.")] = None,
    conf: Annotated[list[str] | None, Argument("--conf", help="Spark setting to reach the files: name=value.")] = None,
    json: Json = False,
) -> None:
    """Move a stopped query from Spark's own Kafka connector to penstock, or back.

    Rewrites the offsets in its checkpoint in place; state, sinks and batch numbers stay. Replaced files are copied to
    the folder originals in the checkpoint. If it is killed midway, run it again, in either direction.
    """
    from penstock.spark import _checkpoint

    session = None if _checkpoint.is_local(checkpoint) else _session(conf or [])
    try:
        done = _checkpoint.convert_checkpoint(
            checkpoint, back=back, dry_run=dry_run, stopped=stopped, sources=source or (), spark=session
        )
    finally:
        if session is not None:
            session.stop()
    rows = [{"batch": each, "form": done.wanted.value} for each in done.converted]
    show(rows, ("batch", "form"), as_json=json, title="Converted batches" if not dry_run else "Batches to convert")
    what = "would be converted" if dry_run else "converted"
    note(
        f"{len(done.converted)} batches {what}; sources: {', '.join(done.sources)}"
        + (f"; left as they are: {', '.join(done.others)}" if done.others else "")
    )
    if done.uncommitted:
        note(f"batch {done.last} was planned and not completed: the query will run it again, with the same records")


def _session(settings: list[str]) -> SparkSession:
    from penstock.spark import session

    pairs = [each.partition("=") for each in settings]
    for name, equals, _ in pairs:
        if not equals:
            raise UsageError(f"--conf {name} is not of the form name=value")
    return session("penstock spark convert-checkpoint", "local[1]", **{name: value for name, _, value in pairs})
