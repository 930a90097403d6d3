"""How command lines become the arguments of a verb's function."""

from __future__ import annotations

import inspect
import itertools
from typing import Any

import pytest

from penstock.cli.app import ABOUT, VERBS, chosen, function_of, parser_for
from penstock.cli.arguments import parsed
from tests.unit.cli.running import penstock, refused

LOG = "kafka://h:1"


def arguments(*words: str) -> dict[str, Any]:
    """What a verb's function is called with, without what has its default."""
    verb, rest = chosen(words)
    usual = {name: each.default for name, each in inspect.signature(function_of(verb)).parameters.items()}
    found = parsed(parser_for(verb), rest)
    assert found.keys() == usual.keys()
    return {name: value for name, value in found.items() if value != usual[name]}


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb in ABOUT and verb != "snode"])
def test_the_list_of_verbs_says_what_each_says_itself(verb: str) -> None:
    assert (function_of(verb).__doc__ or "").startswith(ABOUT[verb].removesuffix("."))


def test_options_and_words_may_stand_in_any_order() -> None:
    for parts in itertools.permutations([[LOG, "a"], ["-p", "4"], ["-o", "a=b"], ["b"]]):
        if parts.index([LOG, "a"]) < parts.index(["b"]):
            words = itertools.chain.from_iterable(parts)
            expected = {"address": LOG, "names": ["a", "b"], "partitions": 4, "option": ["a=b"]}
            assert arguments("topics", "create", *words) == expected


@pytest.mark.parametrize("verb", ["groups describe", "groups delete"])
def test_words_that_may_be_left_out_may_stand_behind_options(verb: str) -> None:
    found = arguments(*verb.split(), LOG, "-o", "a=b", "g", "h")
    assert found == {"address": LOG, "groups": ["g", "h"], "option": ["a=b"]}
    assert not arguments(*verb.split(), LOG, "--all-groups").get("groups")


@pytest.mark.parametrize("value", ["-", "--", "-5", "-->", "--json", "a b", "", "x=y"])
def test_the_word_after_an_option_is_its_value(value: str) -> None:
    for words in (["--key-separator", value], [f"--key-separator={value}"]):
        assert arguments("produce", LOG, *words) == {"address": LOG, **({"separator": value} if value else {})}
    assert arguments("consume", LOG, "-g", value) == {"address": LOG, **({"group": value} if value else {})}


def test_words_behind_two_dashes_are_no_options() -> None:
    assert arguments("produce", "--", LOG, "--format") == {"address": LOG, "source": "--format"}


def test_short_options_and_numbers() -> None:
    assert arguments("topics", "grow", LOG, "t", "-p4") == {"address": LOG, "name": "t", "partitions": 4}
    found = arguments("groups", "reset-offsets", LOG, "g", "--shift-by", "-3", "-t", "a", "-t", "b")
    assert found == {"address": LOG, "groups": ["g"], "shift_by": -3, "topic": ["a", "b"]}


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("topics", "list"), "required: ADDRESS"),
        (("topics", "list", LOG, "--inter"), "unrecognized arguments: --inter"),
        (("topics", "list", LOG, "t"), "unrecognized arguments: t"),
        (("topics", "grow", LOG, "t"), "required: --partitions"),
        (("topics", "grow", LOG, "t", "-p", "x"), "'x' is not a whole number"),
        (("consume", LOG, "--max", "-1"), "-1 is less than 0"),
        (("consume", LOG, "--max"), "expected one argument"),
        (("consume", LOG, "--until-end=1"), "ignored explicit argument '1'"),
        (("topics", "lst"), "invalid choice: 'lst'"),
        (("tpics",), "invalid choice: 'tpics'"),
        (("--bogus",), "required: COMMAND"),
        ((), "usage: penstock [-h]"),
        (("groups",), "usage: penstock groups [-h]"),
    ],
)
def test_a_mistake_is_named(words: tuple[str, ...], says: str) -> None:
    assert says in refused(*words)


def test_a_percent_sign_in_a_help_is_only_that() -> None:
    assert all(penstock(*verb.split(), "--help").code == 0 for verb in VERBS)


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_takes_its_words_and_no_more(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    parser = parser_for(verb)
    needed = [each for each in parser._actions if not each.option_strings and each.nargs != "?"]
    words = ["word"] * len(needed)
    options = [
        word
        for each in parser._actions
        if each.required and each.option_strings
        for word in (each.option_strings[0], "1")
    ]
    assert parsed(parser, [*options, *words])
    with pytest.raises(SystemExit):
        parsed(parser, [*options, *["word"] * 20, "--none-such"])
    assert "usage: penstock" in capsys.readouterr().err
