"""Servers that describe one group at a time: an error of one group is reported, the loss of a server is raised."""

from __future__ import annotations

import asyncio
from typing import cast

import pytest

from penstock.errors import ConnectionLost, ErrorKind, PenstockError, ServerError
from penstock.interfaces import AdminClient, GroupDescription

DENIED = ServerError("denied", code=30, name="X", kind=ErrorKind.UNSUPPORTED)


class OneByOne:
    def __init__(self, **errors: PenstockError) -> None:
        self.errors = errors
        self.asked: list[str] = []

    async def describe_group(self, group: str) -> GroupDescription:
        self.asked.append(group)
        if group in self.errors:
            raise self.errors[group]
        return GroupDescription(group, "Stable", "", None, ())


def test_each_is_asked_for_once_and_a_refusal_is_its_own() -> None:
    admin = OneByOne(b=DENIED)
    found = asyncio.run(AdminClient.describe_groups(cast("AdminClient", admin), ["a", "b", "c", "a"]))
    assert (list(found), found.failed, admin.asked) == (["a", "c"], {"b": DENIED}, ["a", "b", "c"])


def test_a_server_that_is_gone_is_everybodys_error() -> None:
    with pytest.raises(ConnectionLost):
        asyncio.run(
            AdminClient.describe_groups(cast("AdminClient", OneByOne(b=ConnectionLost("gone"))), ["a", "b", "c"])
        )
