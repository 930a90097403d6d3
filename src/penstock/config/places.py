"""Rules of a node with several logs: which topic lives where, by its name.

A rule is ``PATTERN[,PATTERN…]=PLACE``. A pattern is a topic's name, in which ``*`` stands for any letters and ``?`` for
one; the first rule whose pattern fits counts. Which cluster a word means, what can never count and what says two things
is found here, before anything is opened. What must not live here: what is done at a place.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from penstock._dataclasses import dataclass
from penstock.errors import ConfigError

__all__ = ["OWN", "STORE", "Places", "Rule", "is_cluster", "read_places", "shown"]

STORE: Final = "store"
"""What rules call the log that a node keeps itself."""
OWN: Final = "__"
"""So begin the topics that servers keep for themselves, which no rule is about."""
_FORM: Final = "Write PATTERN=PLACE, for example 'orders-*=kafka://HOST:9092'"
_PATTERN: Final = re.compile(r"[a-zA-Z0-9._%|*?-]+")
_ANY: Final = "*"


@dataclass(frozen=True, slots=True)
class Rule:
    """Topics whose names ``fits`` matches in full live at a place, by its number; ``text`` is what was written."""

    pattern: str
    fits: re.Pattern[str]
    place: int
    text: str


@dataclass(frozen=True, slots=True)
class Places:
    """Where topics may live, as addresses, the usual one first; and the rules, in the order in which they count."""

    addresses: Sequence[str]
    rules: Sequence[Rule]

    def of(self, topic: str) -> int:
        """The number of the place where a topic of that name lives.

        >>> places = read_places("memory:", ["kafka://a:9092"], ["orders-*=kafka://a:9092"])
        >>> places.of("orders-eu"), places.of("flights")
        (1, 0)
        """
        return next((rule.place for rule in self.rules if rule.fits.fullmatch(topic)), 0)


def is_cluster(address: str) -> bool:
    """Whether it is not this node that keeps what is there."""
    return "://" in address


def shown(address: str) -> str:
    """Without what may be secret."""
    return address.partition("?")[0].rstrip("/") if is_cluster(address) else address


def read_places(store: str, enodes: Sequence[str], topics: Sequence[str]) -> Places:
    """All of it. Raises ConfigError for what contradicts itself, with what to do about it."""
    addresses = [store, *enodes]
    _check_addresses(addresses)
    if topics and not enodes:
        raise ConfigError(
            f"rules for topics, and only one place where they can live: {shown(store)}",
            hint="Leave topics out, or name another cluster (--enode)",
        )
    rules: list[Rule] = []
    for text in topics:
        for rule in _rules(text, addresses):
            _check_new(rule, rules)
            rules.append(rule)
    for number, address in enumerate(addresses):
        if not _is_used(number, rules) and (number or is_cluster(address)):
            raise ConfigError(
                f"no topic lives in {shown(address)}: no rule says so",
                hint=f"Say which do: --topics 'PATTERN={shown(address)}'; or leave it out",
            )
    return Places(addresses, rules)


def _check_addresses(addresses: Sequence[str]) -> None:
    for number, address in enumerate(addresses):
        if number and not is_cluster(address):
            raise ConfigError(
                f"{address!r} is no address of a cluster", hint="A node has one log of its own, its store; others are"
                " clusters: kafka://HOST:9092, rocketmq://HOST:9876, tubemq://HOST:8715"
            )  # fmt: skip
        if shown(address) in map(shown, addresses[:number]):
            raise ConfigError(f"{shown(address)} is named twice", hint="Name it once, and let several rules say it")


def _is_used(number: int, rules: Sequence[Rule]) -> bool:
    """Whether anything can live there: by a rule, or as the usual place where no rule takes everything."""
    if any(rule.place == number for rule in rules):
        return True
    return not number and all(rule.pattern != _ANY for rule in rules)


def _rules(text: str, addresses: Sequence[str]) -> Iterator[Rule]:
    patterns, equals, where = text.partition("=")
    if not equals or not patterns or not where:
        raise ConfigError(f"{text!r} is no rule for topics", hint=_FORM)
    place = _place(text, where, addresses)
    for pattern in patterns.split(","):
        if not _PATTERN.fullmatch(pattern):
            raise ConfigError(
                f"{text!r} has the pattern {pattern!r}, which fits no topic",
                hint="A pattern is a topic's name, with * for any letters and ? for one; commas stand between two",
            )
        if pattern.startswith(OWN):
            raise ConfigError(
                f"{text!r} is about topics that servers keep for themselves",
                hint=f"Those whose names begin with {OWN} lie where the node keeps its groups; leave the rule out",
            )
        yield Rule(pattern, _compiled(pattern), place, text)


def _place(text: str, where: str, addresses: Sequence[str]) -> int:
    words = [shown(each) if is_cluster(each) else STORE for each in addresses]
    wanted = shown(where)
    if wanted in words:
        return words.index(wanted)
    fitting = [number for number, word in enumerate(words) if word.startswith(f"{wanted}://")]
    if len(fitting) == 1:
        return fitting[0]
    if fitting:
        both = " and ".join(words[number] for number in fitting)
        raise ConfigError(f"{text!r} may mean {both}", hint="Write the address instead of its scheme")
    schemes = [word.partition("://")[0] for word in words]
    known = [word if schemes.count(scheme) > 1 else scheme for word, scheme in zip(words, schemes, strict=True)]
    raise ConfigError(
        f"{text!r} says {wanted!r}, which is no place of this node",
        hint=f"There are {', '.join(known)}; name others with --enode, and a log of the node's own with --store",
    )


def _compiled(pattern: str) -> re.Pattern[str]:
    words = {"*": ".*", "?": "."}
    return re.compile("".join(words.get(letter) or re.escape(letter) for letter in pattern), re.DOTALL)


def _check_new(rule: Rule, before: Sequence[Rule]) -> None:
    """Raise ConfigError where a rule can never count, because one before it fits whatever it fits."""
    for each in before:
        if each.pattern == rule.pattern:
            what = "twice" if each.place == rule.place else "in two places"
            raise ConfigError(
                f"topics {rule.pattern!r} live {what}: {each.text!r} and {rule.text!r}", hint="Keep one of the two"
            )
        if _covers(each, rule.pattern):
            raise ConfigError(
                f"{rule.text!r} never counts for {rule.pattern!r}: {each.text!r} comes first and takes them all",
                hint="Put the narrower rule first, or leave it out",
            )


def _covers(rule: Rule, pattern: str) -> bool:
    """Whether a rule fits all that ``pattern`` fits: its shortest names, and those of letters that nobody wrote."""
    many = "\0" * (len(rule.pattern) + 1)  # more than a rule can have question marks: only its * takes them
    return all(rule.fits.fullmatch(pattern.replace("?", "\0").replace("*", some)) for some in ("", many))
