"""Puts the verbs together and turns our errors into one line and an exit code.

Each verb lives in its own module, which imports what it needs only when it runs: ``penstock snode`` must be ready in
a fraction of a second, and ``penstock --help`` must not import Arrow.
Exit codes: 0 fine, 1 the peer's or the log's fault, 2 yours (as typer's own usage errors).
"""

from __future__ import annotations

import sys

import typer

from penstock.cli import bench, consume, demo, doctor, groups, produce, snode, topics
from penstock.errors import LocalError, PenstockError

app = typer.Typer(
    name="penstock",
    help="Message logs (Kafka, RocketMQ, TubeMQ) to Spark, and a node that serves them.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("snode")(snode.snode)
app.add_typer(topics.app, name="topics")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.add_typer(groups.app, name="groups")
app.command("demo")(demo.demo)
app.command("bench")(bench.bench)
app.command("doctor")(doctor.doctor)


def main() -> None:
    """Run the command line; the entry point of the ``penstock`` script."""
    try:
        app()
    except PenstockError as error:
        sys.stderr.write(f"penstock: {error}\n")
        raise SystemExit(2 if isinstance(error, LocalError) else 1) from None
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    except BrokenPipeError:
        # The reader of our output left (`| head`): not an error, but Python would complain again at exit.
        sys.stderr.close()
        raise SystemExit(0) from None
