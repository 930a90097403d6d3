"""``penstock demo``: the 336,776 flights through a wire protocol into Spark and out as a table and a picture."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penstock.extras import refusal


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
