"""What logs differ in. A suite names what it needs, and runs on every log that has it.

A log that lacks something says why in its row, and runs what shows what happens instead: nothing is left out unseen.
"""

from __future__ import annotations

import enum

import pytest


class Ability(enum.Enum):
    COUNTS_RECORDS = "the offset of the next record is one more"
    COMMITS_ANY_OFFSET = "a group's offset can be set to any record, also in the middle of what was read at once"
    TAKES_INSTANCE_IDS = "a member may have a name of its own"
    FENCES_BY_NAME = "who comes under the name that a member has takes its place"
    BEGINS_NOWHERE = "a group that has committed nothing can be told to stop, instead of beginning somewhere"
    FORGETS_OFFSETS = "where a group stands in a topic can be forgotten, and the rest of it kept"
    REMOVES_MEMBERS = "an operator can throw a member out of a group"
    FINDS_TIMES = "the first record at or after a time is found"
    FINDS_OWN_TIMES = "a record's time is the one it was sent with, not the one at which it was stored"


def needs(*abilities: Ability) -> pytest.MarkDecorator:
    """The test runs on logs that have all of these."""
    return pytest.mark.needs(*abilities)


def lacks(ability: Ability) -> pytest.MarkDecorator:
    """The test runs on logs that do not have this: it shows what they do instead."""
    return pytest.mark.lacks(ability)
