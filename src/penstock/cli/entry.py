"""The entry point: ``snode`` is run by its own module, a plain command line by `plain`, everything else by typer.

Tests and scripts start a node many times a minute, and the import of typer with its dependencies (pydantic) takes about
as long as the start of a node.
"""

from __future__ import annotations

import sys

from penstock.cli.output import replace_closed_streams, reporting_errors, write_standard_output_whole
from penstock.extras import EXTRAS, refusal
from penstock.net.loops import hold_standard_streams


def main() -> None:
    """Run the command line; the entry point of the ``penstock`` script."""
    words = sys.argv[1:]
    hold_standard_streams()
    replace_closed_streams()
    write_standard_output_whole()
    if words[:1] == ["snode"]:
        from penstock.cli.snode import snode

        snode(words[1:])
        return
    if words == ["--version"]:
        from penstock._version import __version__

        with reporting_errors():
            sys.stdout.write(f"penstock {__version__}\n")
        return
    from penstock.cli.logs import log_as_asked

    with reporting_errors():
        log_as_asked()
    try:
        from penstock.cli.plain import run

        if run(words):
            return
        from penstock.cli.app import app
    except ModuleNotFoundError as error:
        _without_verbs(words, error)
    else:
        app()


def _without_verbs(words: list[str], error: ModuleNotFoundError) -> None:
    """The command line without the extra `cli`: the doctor's plain findings, else a sentence that names the extra."""
    if (error.name or "").partition(".")[0] not in EXTRAS["cli"].modules:
        raise error
    if words[:1] == ["doctor"]:
        from penstock.cli.findings import of_this_machine

        sys.stdout.writelines(f"{each.what}\t{each.status}\t{each.detail}\n" for each in of_this_machine())
        return
    with reporting_errors():
        raise refusal("cli", f"`penstock {words[0]}`" if words else "the command line")
