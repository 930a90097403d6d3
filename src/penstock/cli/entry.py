"""The way in: ``snode`` goes straight to its module, every other verb to the typer application.

A node is started by tests and scripts many times a minute, and typer with what it needs (pydantic) takes about as long
to import as the node takes to start. What must not live here: any verb.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Run the command line; the entry point of the ``penstock`` script."""
    words = sys.argv[1:]
    if words[:1] == ["snode"]:
        from penstock.cli.snode import snode

        snode(words[1:])
    else:
        from penstock.cli.app import app

        app()
