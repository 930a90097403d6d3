"""The arguments of verbs: how a function becomes an argparse parser, what verbs share, and clients' options."""

from __future__ import annotations

import argparse
import inspect
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Final, get_args, get_type_hints

from penstock.errors import ConfigError

_NONE: Final[Mapping[str, str]] = {}
_EXAMPLES: Final = "\n\nExamples:\n"


class Argument:
    """In the annotation of a verb's parameter: the names of its option (none: an argument by position) and its help."""

    def __init__(self, *names: str, help: str, least: int | None = None) -> None:
        self.names = names
        self.help = help
        self.least = least

    def add_to(self, parser: argparse.ArgumentParser, name: str, kind: Any, default: Any) -> list[str]:
        """Add it to ``parser``: for a bool a flag, for a list an option that may be repeated, or several words.

        Returns what stands for it in a usage line, where options are not listed.
        """
        required = default is inspect.Parameter.empty
        several = kind in (list[str], list[str] | None)
        says = self.help.replace("%", "%%") + (
            "" if default in (None, "", False) or required else f" [default: {default}]"
        )
        settings: dict[str, Any] = {"help": says, "default": None if required else default}
        if kind is bool:
            settings["action"] = "store_true"
        elif kind in (int, int | None):
            settings["type"] = self._number
        elif kind in (Path, Path | None):
            settings["type"] = Path
        if self.names:
            if kind is not bool:
                settings["metavar"] = self.names[0].lstrip("-").upper().replace("-", "_")
            if several:
                settings["action"] = "append"
            parser.add_argument(*self.names, dest=name, required=required, **settings)
            return []
        if several or not required:
            settings["nargs"] = "?" if not several else "+" if required else "*"
        parser.add_argument(name, metavar=name.upper(), **settings)
        word = name.upper() + "..." * several
        return [word if required else f"[{word}]"]

    def _number(self, word: str) -> int:
        try:
            number = int(word)
        except ValueError:
            raise argparse.ArgumentTypeError(f"{word!r} is not a whole number") from None
        if self.least is not None and number < self.least:
            raise argparse.ArgumentTypeError(f"{number} is less than {self.least}")
        return number


class _Parser(argparse.ArgumentParser):
    def _get_values(self, action: argparse.Action, arg_strings: list[str]) -> Any:
        # Until Python 3.12, argparse drops the value of an option if it is "--".
        if arg_strings == ["--"] and action.option_strings:
            return self._get_value(action, "--")
        return super()._get_values(action, arg_strings)


class HelpText(argparse.HelpFormatter):
    """Fills each paragraph of a text by itself, and leaves indented lines (examples) as they are."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        fill = super()._fill_text
        return "\n\n".join(each if "\n  " in each else fill(each, width, indent) for each in text.split("\n\n"))


def parser_of(verb: str, function: Callable[..., None]) -> argparse.ArgumentParser:
    """The parser of a verb, made of its function: docstring and annotated parameters."""
    about, _, examples = inspect.cleandoc(function.__doc__ or "").partition(_EXAMPLES)
    parser = _Parser(
        prog=f"penstock {verb}",
        description=about,
        epilog=(_EXAMPLES.lstrip() + examples) if examples else None,
        formatter_class=HelpText,
        allow_abbrev=False,
    )
    hints = get_type_hints(function, include_extras=True)
    usage = [parser.prog, "[OPTIONS]"]
    for name, parameter in inspect.signature(function).parameters.items():
        kind, argument = get_args(hints[name])
        usage += argument.add_to(parser, name, kind, parameter.default)
    parser.usage = " ".join(usage)
    return parser


def parsed(parser: argparse.ArgumentParser, words: Sequence[str]) -> dict[str, Any]:
    """The arguments of a verb's function. The word after an option is its value, even if it begins with a dash."""
    with_value = {name: each for each in parser._actions if each.nargs is None for name in each.option_strings}
    options: list[str] = []
    others: list[str] = []
    left = iter(words)
    for word in left:
        if word == "--":
            others += left
        elif word == "-" or not word.startswith("-"):
            others.append(word)
        elif word in with_value and (value := next(left, None)) is not None:
            options.append(f"{with_value[word].option_strings[0]}={value}")
        else:
            options.append(word)
    # argparse would give optional words their defaults at the first option between two words.
    return vars(parser.parse_args([*options, *(["--", *others] if others else [])]))


Address = Annotated[
    str, Argument(help="Where the log is: scheme://host:port[/topic], for example kafka://127.0.0.1:9092/flights")
]
Json = Annotated[bool, Argument("--json", help="Print JSON, one object per line.")]
Csv = Annotated[bool, Argument("--csv", help="Print CSV, the columns' names first; what is unknown is empty.")]
Header = Annotated[bool, Argument("--header", help="In a pipe: print the columns' names first.")]
Option = Annotated[list[str] | None, Argument("--option", "-o", help="A client option as name=value; may be repeated.")]


def pairs(given: list[str] | None) -> dict[str, str]:
    """``name=value`` arguments as a mapping. Raises ConfigError for one without "="."""
    found: dict[str, str] = {}
    for item in given or ():
        name, equals, value = item.partition("=")
        if not equals or not name:
            raise ConfigError(f"'{item}' is not of the form name=value")
        if name in found:
            raise ConfigError(f"'{name}' is given twice")
        found[name] = value
    return found


def client_options(address: str, given: list[str] | None, defaults: Mapping[str, str] = _NONE) -> dict[str, str]:
    """The options of ``--option``, and those ``defaults`` that neither they nor the address set. Raises ConfigError.

    If one of the options names a configuration file, there are no defaults.
    """
    options = pairs(given)
    said = all_said(address, options)
    if "config_file" in said:
        return options
    return {**{name: value for name, value in defaults.items() if name not in said}, **options}


def all_said(address: str, options: Mapping[str, str]) -> dict[str, str]:
    """The address's options, overridden by ``options``, with penstock's names; other clients' options are translated.

    Raises ConfigError.
    """
    from penstock.config import ConsumerConfig
    from penstock.protocols import address_of, protocol

    parsed = address_of(address)
    words = protocol(parsed.scheme).config
    theirs = words.theirs if words.address is not None and words.address(address, ConsumerConfig) is not None else {}
    said = {words.meaning(name)[0]: value for name, value in {**parsed.options, **options}.items()}
    return {name: str(value) for name, value in theirs.items()} | said


def without(address: str, options: Mapping[str, str], ours: str) -> dict[str, str]:
    """``options`` without the one that penstock calls ``ours``, in any client's spelling. Raises ConfigError."""
    from penstock.protocols import address_of, protocol

    words = protocol(address_of(address).scheme).config
    return {name: value for name, value in options.items() if words.meaning(name)[0] != ours}


def topics_of(address: str) -> tuple[str, ...]:
    """The topics an address names. Raises ConfigError if it names none."""
    from penstock.protocols import address_of

    topics = address_of(address).topics
    if not topics:
        raise ConfigError(f"the address '{address}' names no topic", hint="for example kafka://127.0.0.1:9092/flights")
    return topics
