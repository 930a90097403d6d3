"""Puts the verbs together.

Each verb lives in its own module, which imports what it needs only when it runs: ``penstock --help`` must not import
Arrow.
"""

from __future__ import annotations

from typing import Annotated

import typer
from typer.core import TyperGroup

from penstock.cli import bench, consume, demo, doctor, groups, produce, spark, topics
from penstock.cli.endings import reporting_errors
from penstock.cli.options import examples


class Verbs(TyperGroup):
    """The verbs, whose errors are reported in one line."""

    def invoke(self, ctx: typer.Context) -> object:  # type: ignore[override]  # typer's own Context, wherever it keeps it
        """Run the verb that was named."""
        with reporting_errors():
            return super().invoke(ctx)


app = typer.Typer(
    name="penstock",
    cls=Verbs,
    help="Message logs (Kafka, RocketMQ, TubeMQ) to Spark, and a node that serves them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    # Help shows addresses and options: "[/topic]" is not markup, and nothing else in it is.
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
app.add_typer(spark.app, name="spark")
app.command("demo")(demo.demo)
app.command("bench", epilog=bench.EXAMPLES)(bench.bench)
app.command("doctor", epilog=doctor.EXAMPLES)(doctor.doctor)
