"""The typer application with all verbs; `demo` and `spark`, which only call other code, are defined here.

The other verbs have their own modules. All of them import other packages only when they run, because
``penstock --help`` must not import Arrow.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperGroup

from penstock.cli import checks, consume, groups, produce, topics
from penstock.cli.options import Json, examples
from penstock.cli.output import note, reporting_errors, show
from penstock.errors import UsageError
from penstock.extras import refusal

if TYPE_CHECKING:
    from penstock.spark import SparkSession


# ``penstock demo``.
def demo(
    out: Annotated[Path, typer.Option("--out", help="Folder for the results and all state.")] = Path("demo-out"),
    fresh: Annotated[bool, typer.Option("--fresh", help="Forget an earlier run in that folder.")] = False,
) -> None:
    """Take 336,776 flights through a node and Spark. Ends non-zero if any cell of the result is wrong."""
    try:
        from penstock.demo import main
    except ModuleNotFoundError as error:
        raise refusal("demo", "the demo") from error

    raise typer.Exit(main(out, fresh))


# ``penstock spark``: operations on streaming queries from outside.
spark_verbs = typer.Typer(help="Streaming queries of Spark.", no_args_is_help=True)


@spark_verbs.callback()
def spark() -> None:
    """Streaming queries of Spark."""


@spark_verbs.command("convert-checkpoint")
def convert(
    checkpoint: Annotated[str, typer.Argument(help="The query's checkpointLocation: a folder, or hdfs://…, s3a://…")],
    back: Annotated[bool, typer.Option("--back", help="From penstock to Spark's own connector.")] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be done.")] = False,
    stopped: Annotated[
        bool, typer.Option("--stopped", help="The query is stopped, however recent its log is.")
    ] = False,
    source: Annotated[list[str] | None, typer.Option(help="Place or name of a source that is Kafka's.")] = None,
    conf: Annotated[list[str] | None, typer.Option(help="Spark setting to reach the files: name=value.")] = None,
    json: Json = False,
) -> None:
    """Move a stopped query from Spark's own Kafka connector to penstock, or back.

    Rewrites the offsets in its checkpoint in place; state, sinks and batch numbers stay. Replaced files are copied to
    the folder originals in the checkpoint. If it is killed midway, run it again, in either direction.
    """
    from penstock.spark._checkpoint import convert_checkpoint, is_local

    session = None if is_local(checkpoint) else _session(conf or [])
    try:
        done = convert_checkpoint(
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


class Verbs(TyperGroup):
    """A group of verbs that reports errors in one line."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's own Context, wherever it keeps it
        """Run the named verb."""
        with reporting_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="penstock",
    cls=Verbs,
    help="Message logs (Kafka, RocketMQ, TubeMQ) to Spark, and a node that serves them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Help texts have no markup, and "[/topic]" in an address must not be taken for it.
    rich_markup_mode=None,
    epilog=examples(
        "penstock snode --store file:./data",
        "penstock topics create kafka://127.0.0.1:9092 departures -p 4",
        "penstock doctor kafka://127.0.0.1:9092",
    ),
)


def _version(wanted: bool) -> None:
    if wanted:
        from penstock._version import __version__

        typer.echo(f"penstock {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")] = False,
) -> None:
    """Message logs (Kafka, RocketMQ, TubeMQ) to Spark, and a node that serves them."""
    del version


@app.command(
    "snode",
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True, "help_option_names": []},
)
def serve(context: typer.Context) -> None:
    """Serve topics to clients. Prints one line when ready; drains and stops on SIGTERM."""
    from penstock.cli.snode import snode

    snode(context.args)


app.add_typer(topics.app, name="topics")
app.command("produce", epilog=produce.EXAMPLES)(produce.produce)
app.command("consume", epilog=consume.EXAMPLES)(consume.consume)
app.add_typer(groups.app, name="groups")
app.add_typer(spark_verbs, name="spark")
app.command("demo")(demo)
app.command("bench", epilog=checks.BENCH_EXAMPLES)(checks.bench)
app.command("doctor", epilog=checks.DOCTOR_EXAMPLES)(checks.doctor)
