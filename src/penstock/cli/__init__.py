"""The command line: it only parses arguments and prints results. ``penstock --help`` lists the verbs."""

from penstock.cli.app import main

__all__ = ["main"]
