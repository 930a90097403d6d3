"""Pins and metadata must not drift apart: what the package asks for is pinned, once, to a version it accepts."""

import tomllib
from importlib.metadata import version
from itertools import combinations

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tools.environment import EVERYTHING, FOR_INTEROP, PINS, ROOT, pins

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
GROUPS = sorted(file.stem for file in PINS.glob("*.txt"))
SMALL_EXTRAS = ("fast", "metrics", "node", "opentelemetry", "tubemq")
"""Pinned together."""


def asked_for() -> list[tuple[str, Requirement]]:
    """(group that must pin it, requirement) for the build, the package and its extras."""
    metadata = PROJECT["project"]
    rows = [("build", line) for line in PROJECT["build-system"]["requires"]]
    rows += [("run", line) for line in metadata["dependencies"]]
    for extra, lines in metadata["optional-dependencies"].items():
        rows += [("extras" if extra in SMALL_EXTRAS else extra, line) for line in lines]
    return [(group, Requirement(line)) for group, line in rows if not line.startswith("penstock")]


@pytest.mark.parametrize(("group", "requirement"), asked_for(), ids=str)
def test_what_the_package_asks_for_is_pinned_to_a_version_it_accepts(group: str, requirement: Requirement) -> None:
    pinned = pins(group)[canonicalize_name(requirement.name)]
    assert requirement.specifier.contains(pinned)


def test_no_package_is_pinned_twice() -> None:
    twice = {(one, two): set(pins(one)) & set(pins(two)) for one, two in combinations(GROUPS, 2)}
    assert {pair: names for pair, names in twice.items() if names} == {}


def test_every_file_of_pins_is_installed_by_somebody() -> None:
    assert set(GROUPS) == {*FOR_INTEROP, "java"}


def test_what_runs_here_is_what_is_pinned() -> None:
    found = {name: (wanted, version(name)) for group in EVERYTHING for name, wanted in pins(group).items()}
    assert {name: pair for name, pair in found.items() if pair[0] != pair[1]} == {}
