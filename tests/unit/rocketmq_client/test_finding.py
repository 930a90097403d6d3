"""Single messages are found by a key, by the id that their producer gave them, and by that of their place."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from penstock import Admin, Producer
from penstock.errors import ServerError, UsageError
from penstock.model import Record
from penstock.testing import Broker


def values(found: Sequence[Record]) -> list[bytes | None]:
    return [each.value for each in found]


@pytest.fixture
def admin() -> Any:
    with Broker(listen="rocketmq://127.0.0.1:0") as node:
        node.create_topic("orders", partitions=2)
        with Producer(node.url("rocketmq")) as producer:
            for number, key in enumerate([b"one", b"two", b"one two", b"oneself"]):
                producer.send("orders", b"%d" % number, key=key, headers={"n": b"%d" % number}).result(30)
        with Admin(node.url("rocketmq")) as admin:
            yield admin


def test_by_a_key(admin: Admin) -> None:
    found = admin.find("orders", key="one")
    assert values(found) == [b"0", b"2"]
    first = found[0]
    assert (first.topic, first.key, dict(first.headers)["n"]) == ("orders", b"one", b"0")
    assert values(admin.find("orders", key="one", most=1)) == [b"0"]
    assert admin.find("orders", key="three") == []
    assert admin.find("orders", key="one", between_ms=(0, 1_000)) == []


def test_by_either_id(admin: Admin) -> None:
    (found,) = admin.find("orders", key="two", between_ms=(int(time.time() * 1_000) - 60_000, 1 << 62), most=1)
    unique = dict(found.headers)["UNIQ_KEY"]
    assert unique is not None
    assert values(admin.find("orders", record_id=unique.decode())) == [b"1"]
    assert admin.find("orders", record_id="0" * 32) == []
    assert admin.find("orders", record_id="nothing") == []


def test_of_a_topic_that_is_there(admin: Admin) -> None:
    with pytest.raises(ServerError, match="no name server knows it"):
        admin.find("nowhere", key="one")


@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda admin: admin.find("orders"), "by a key or by an id"),
        (lambda admin: admin.find("orders", key="a", record_id="b"), "by a key or by an id"),
        (lambda admin: admin.find("orders", key=b"a"), "key is b'a', it must be text"),
        (lambda admin: admin.find("orders", key="a", between_ms=(5, 1)), "no time between 5 and 1"),
        (lambda admin: admin.find("orders", key="a", most=0), "most is 0"),
        (lambda admin: admin.find("", key="a"), "topic is ''"),
    ],
)
def test_what_cannot_be_asked_is_refused(admin: Admin, ask: Callable[[Admin], object], says: str) -> None:
    with pytest.raises(UsageError, match=says):
        ask(admin)


def test_a_log_without_an_index_says_so() -> None:
    with Broker() as node, Admin(node.address) as admin, pytest.raises(UsageError, match="no index of keys"):
        admin.find("orders", key="one")
