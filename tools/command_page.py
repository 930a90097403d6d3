"""Generates the reference of the command line from the help texts of the verbs."""

from __future__ import annotations

import argparse
import inspect
import re
from collections.abc import Iterator
from typing import Any

import typer

from penstock.cli.app import app
from penstock.cli.snode import arguments

__all__ = ["verbs"]


def verbs() -> str:
    """A section for each verb."""
    return "\n\n".join(_sections("penstock", typer.main.get_command(app)))


def _sections(path: str, command: Any) -> Iterator[str]:
    for name, each in command.commands.items():
        if hasattr(each, "commands"):
            yield from _sections(f"{path} {name}", each)
        elif name == "snode":
            yield _of_argparse(arguments())
        else:
            yield _of_typer(f"{path} {name}", each)


def _of_typer(path: str, command: Any) -> str:
    shown = [each for each in command.params if each.name != "help" and not getattr(each, "hidden", False)]
    words = [each for each in shown if each.param_type_name == "argument"]
    usage = " ".join([path, "[OPTIONS]", *(_placeholder(each) for each in words)])
    rows = [
        (_placeholder(each) if each in words else ", ".join([*each.opts, *each.secondary_opts]), each.help or "")
        for each in shown
    ]
    return _section(path, usage, inspect.cleandoc(command.help or ""), rows)


def _placeholder(argument: Any) -> str:
    name = str(argument.name).upper() + ("..." if argument.nargs == -1 else "")
    return name if argument.required else f"[{name}]"


def _of_argparse(parser: argparse.ArgumentParser) -> str:
    usage = " ".join(parser.format_usage().removeprefix("usage: ").split())
    rows = [
        (
            ", ".join(each.option_strings) + (f" {each.metavar or each.dest.upper()}" if each.nargs is None else ""),
            each.help or "",
        )
        for each in parser._actions
        if each.dest != "help"
    ]
    return _section(parser.prog, usage, parser.description or "", rows)


def _section(path: str, usage: str, about: str, rows: list[tuple[str, str]]) -> str:
    table = "\n".join(["| | |", "|---|---|", *(f"| `{name}` | {_cell(text)} |" for name, text in rows)])
    return f"## {path}\n\n```text\n{usage}\n```\n\n{about}\n\n{table}" if rows else f"## {path}\n\n{about}"


def _cell(text: str) -> str:
    # Help texts may escape a bracket for the console's markup.
    return re.sub(r"\\\[", "[", " ".join(text.split())).replace("|", "\\|")
