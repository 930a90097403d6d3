"""The command line: it only parses arguments and prints results. ``penstock --help`` lists the verbs."""

from penstock.cli.entry import main

__all__ = ["main"]
