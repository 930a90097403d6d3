"""The command line: argument parsing and printing, nothing else. ``penstock --help`` lists the verbs."""

from penstock.cli.entry import main

__all__ = ["main"]
