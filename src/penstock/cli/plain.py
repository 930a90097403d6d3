"""Runs plain command lines without typer: complete ones, spelled out, without mistakes.

Typer imports pydantic to convert a word, which is half of the time of a short command. The verbs' own signatures decide
what is plain; anything else (help, a mistake, an unusual spelling) is left to typer. This module must not print
messages or give words another meaning than typer does, because users must not notice which of the two runs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from inspect import Parameter, signature
from pathlib import Path
from typing import Any, Final, get_args, get_type_hints

from penstock.cli.output import reporting_errors

__all__ = ["VERBS", "bound", "run"]

VERBS: Final[Mapping[str, str]] = {
    "bench": "checks.bench",
    "consume": "consume.consume",
    "doctor": "checks.doctor",
    "groups delete": "groups.delete",
    "groups delete-offsets": "groups.delete_offsets",
    "groups describe": "groups.describe",
    "groups list": "groups.list_groups",
    "groups remove-members": "groups.remove_members",
    "groups reset-offsets": "group_reset.reset_offsets",
    "produce": "produce.produce",
    "topics alter": "topics.alter",
    "topics create": "topics.create",
    "topics delete": "topics.delete",
    "topics describe": "topics.describe",
    "topics grow": "topics.grow",
    "topics list": "topics.list_topics",
}
"""The function of each verb, as ``module:function`` of this package."""

_NUMBER: Final = re.compile(r"[0-9]{1,9}", re.ASCII)


class _NotPlain(Exception):
    """The command line is not plain; typer has to handle it."""


def run(words: Sequence[str]) -> bool:
    """Run a plain command line and return True; for any other, do nothing and return False."""
    verb = next((each for each in (" ".join(words[:2]), *words[:1]) if each in VERBS), None)
    if verb is None:
        return False
    module, _, name = VERBS[verb].partition(".")
    function = getattr(import_module(f"penstock.cli.{module}"), name)
    arguments = bound(function, words[len(verb.split()) :])
    if arguments is None:
        return False
    import typer

    with reporting_errors():
        try:
            function(**arguments)
        except typer.Exit as ended:
            raise SystemExit(ended.exit_code) from None
    return True


def bound(function: Callable[..., object], words: Sequence[str]) -> dict[str, Any] | None:
    """The arguments of a verb's function for these words; None if they are not plain."""
    try:
        return _Binding(function).bind(words)
    except _NotPlain:
        return None


class _Binding:
    """Binds words to a function's signature: names of options, numbers of words of arguments, conversion of words."""

    def __init__(self, function: Callable[..., object]) -> None:
        self._kinds: dict[str, Any] = {}
        self._options: dict[str, str] = {}
        self._arguments: list[str] = []
        self._least: dict[str, float] = {}
        self._parameters = signature(function).parameters
        hints = get_type_hints(function, include_extras=True)
        for name in self._parameters:
            kind, said = get_args(hints[name])
            self._kinds[name] = kind
            if getattr(said, "min", None) is not None:
                self._least[name] = said.min
            if type(said).__name__ == "OptionInfo":
                # In an annotation, typer stores an option's first name as its default.
                self._options |= dict.fromkeys((said.default, *said.param_decls), name)
            else:
                self._arguments.append(name)

    def bind(self, words: Sequence[str]) -> dict[str, Any]:
        given: dict[str, Any] = {}
        places: list[str] = []
        left = list(words)
        while left:
            word = left.pop(0)
            if not word.startswith("-") or word == "-":
                places.append(word)
                continue
            spelled, equals, value = word.partition("=")
            name = self._options.get(spelled)
            if name is None or (equals and not spelled.startswith("--")):
                raise _NotPlain
            if self._kinds[name] is bool:
                if equals or name in given:
                    raise _NotPlain
                given[name] = True
                continue
            if not equals:
                value = left.pop(0) if left else "-"
            self._add(given, name, value)
        self._place(given, places)
        for name, parameter in self._parameters.items():
            if name not in given and parameter.default is Parameter.empty:
                raise _NotPlain
        return {**{name: each.default for name, each in self._parameters.items()}, **given}

    def _place(self, given: dict[str, Any], places: list[str]) -> None:
        for name in self._arguments:
            taken, places = (places, []) if _is_list(self._kinds[name]) else (places[:1], places[1:])
            for word in taken:
                self._add(given, name, word)
        if places:
            raise _NotPlain

    def _add(self, given: dict[str, Any], name: str, word: str) -> None:
        kind = self._kinds[name]
        if word.startswith("-") and not (name in self._arguments and word == "-"):
            raise _NotPlain
        if _is_list(kind):
            given.setdefault(name, []).append(word)
        elif name in given:
            raise _NotPlain
        else:
            given[name] = self._converted(name, kind, word)

    def _converted(self, name: str, kind: Any, word: str) -> object:
        if kind in (str, str | None):
            return word
        if kind == Path | None and word:
            return Path(word)
        if kind is int and _NUMBER.fullmatch(word) and int(word) >= self._least.get(name, 0):
            return int(word)
        raise _NotPlain


def _is_list(kind: Any) -> bool:
    return kind in (list[str], list[str] | None)
