"""``penstock spark``: what an operator does to streaming queries from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import Json
from penstock.cli.output import note, show
from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.spark import SparkSession

app = typer.Typer(help="Streaming queries of Spark.", no_args_is_help=True)


@app.callback()
def spark() -> None:
    """Streaming queries of Spark."""


@app.command("convert-checkpoint")
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
    from penstock.spark.checkpoint.command import convert_checkpoint, is_local

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
