"""Generates the reference of the command line from the help texts of the verbs."""

from __future__ import annotations

import argparse

from penstock.cli.app import VERBS, parser_for

__all__ = ["verbs"]


def verbs() -> str:
    """A section for each verb."""
    return "\n\n".join(map(_of_verb, VERBS))


def _of_verb(verb: str) -> str:
    parser = parser_for(verb)
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    rows = [
        (", ".join(each.option_strings) + f" {_placeholder(each)}" * (each.nargs != 0), each.help or "")
        for each in parser._actions
        if each.dest != "help"
    ]
    return _section(parser.prog, usage, parser.description or "", [(name.strip(), text) for name, text in rows])


def _placeholder(action: argparse.Action) -> str:
    return str(action.metavar or action.dest.upper()) + "..." * (action.nargs in ("*", "+"))


def _section(path: str, usage: str, about: str, rows: list[tuple[str, str]]) -> str:
    table = "\n".join(["| | |", "|---|---|", *(f"| `{name}` | {_cell(text)} |" for name, text in rows)])
    return f"## {path}\n\n```text\n{usage}\n```\n\n{about}\n\n{table}" if rows else f"## {path}\n\n{about}"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("%%", "%")
