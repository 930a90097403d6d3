"""TubeMQ's strings: what the protocol's table says is read and written so, anything else is refused and quoted."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import pytest

from penstock.errors import ProtocolViolation
from penstock.model import Endpoint, Node, Partition
from penstock.protocols.tubemq.wire import strings
from penstock.protocols.tubemq.wire.strings import (
    BrokerIdentity,
    Held,
    Located,
    Placement,
    Published,
    Subscribable,
    aligned,
    partition_ids,
    store_of,
    within_store,
)

NODE = Node("1", Endpoint("10.0.0.5", 8123))
LOCATED = Located(NODE, Partition("test1", 10001, "1"))


@pytest.mark.parametrize(
    ("text", "node"),
    [
        ("1:10.0.0.5:8123", NODE),
        ("1:10.0.0.5: ", NODE),
        ("1:10.0.0.5:", NODE),
        ("1:10.0.0.5", NODE),
        (" 7 : host : 9 ", Node("7", Endpoint("host", 9))),
        ("2:::1:8123", Node("2", Endpoint("::1", 8123))),
    ],
)
def test_a_broker_is_read_with_or_without_its_port(text: str, node: Node) -> None:
    assert strings.parse_broker(text) == node


def test_a_missing_port_is_that_of_the_kind_of_connection() -> None:
    assert strings.parse_broker("1:h: ", strings.BROKER_TLS_PORT).endpoint.port == 8124


def test_a_default_port_is_written_as_a_blank_where_asked() -> None:
    assert strings.format_broker(NODE) == "1:10.0.0.5:8123"
    assert strings.format_broker(NODE, 8123) == "1:10.0.0.5: "
    assert strings.format_broker(NODE, 8124) == "1:10.0.0.5:8123"


def test_partitions_and_their_keys() -> None:
    text = "1:10.0.0.5:8123#test1:10001"
    assert strings.parse_located(text) == LOCATED
    assert strings.format_located(LOCATED) == text
    assert strings.parse_key("1:test1:10001") == LOCATED.partition
    assert strings.format_key(LOCATED.partition) == "1:test1:10001"


def test_what_a_consumer_holds() -> None:
    text = "own_127.0.0.1-12-1284-Pull-1.13.0@own#1:10.0.0.5:8123#test1:10001"
    held = Held("own_127.0.0.1-12-1284-Pull-1.13.0", "own", LOCATED)
    assert strings.parse_held(text) == held
    assert strings.format_held(held) == text


def test_a_failed_partition() -> None:
    text = "411:1:10.0.0.5:8123#test1:10001"
    assert strings.parse_failure(text) == (411, LOCATED)
    assert strings.format_failure(411, LOCATED) == text


def test_required_partitions() -> None:
    offsets = {Partition("test1", 0, "1"): 28, Partition("test2", 10000, "12"): 1 << 40}
    text = f"1:test1:0=28,12:test2:10000={1 << 40}"
    assert strings.format_required(offsets) == text
    assert strings.parse_required(text) == offsets
    assert strings.parse_required(" ") == {}


def test_a_topics_filter() -> None:
    assert strings.parse_topic_filter("demo#blue,red") == ("demo", ("blue", "red"))
    assert strings.format_topic_filter("demo", ["blue", "red"]) == "demo#blue,red"


@pytest.mark.parametrize(
    ("text", "limit", "written"),
    [("t#1:3:2,4:5:1#2048", 2048, "t#1:3:2,4:5:1#2048"), ("t#1:3:2,4:5:1#", None, "t#1:3:2,4:5:1#"),
     ("t#1:3:2,4:5:1", None, "t#1:3:2,4:5:1#")],
)  # fmt: skip
def test_where_a_topic_is_published_counts_partitions_before_stores(text: str, limit: int | None, written: str) -> None:
    published = Published("t", (Placement(1, 2, 3), Placement(4, 1, 5)), limit)
    assert strings.parse_published(text) == published
    assert strings.format_published(published) == written


def test_where_a_topic_is_subscribed_counts_stores_before_partitions() -> None:
    subscribable = Subscribable("t", (Placement(1, 2, 3, 1), Placement(4, 1, 5, 0)))
    assert strings.parse_subscribable("t#1:2:3:1,4:1:5:0") == subscribable
    assert strings.format_subscribable(subscribable) == "t#1:2:3:1,4:1:5:0"


def test_what_a_balanced_consumer_holds_of_a_topic() -> None:
    held = [Partition("t", 0, "1"), Partition("t", 10001, "2")]
    assert strings.parse_topic_holdings("t#1:0,2:10001") == held
    assert strings.format_topic_holdings("t", held) == "t#1:0,2:10001"
    assert strings.parse_topic_holdings("t#") == []


def test_a_broker_names_itself_to_its_master() -> None:
    assert strings.parse_broker_identity("1:10.0.0.5:8123:2.4.0") == BrokerIdentity(NODE, "2.4.0")


@pytest.mark.parametrize(
    ("parse", "broken"),
    [
        (parse, broken)
        for parse, many in (
            (strings.parse_broker, ["", "1", "x:h:1", "-1:h:1", "1::8123", "1:h:0", "1:h:65536", "1:h:x", "٣:h:1"]),
            (strings.parse_located, ["", "1:h:1", "1:h:1#t", "1:h:1#t:-1", "1:h:1#:1", "1:h:1#t:1#",
                "1:h:1#t:1:2", "#t:1"]),
            (strings.parse_key, ["", "1:t", "1:t:1:1", "x:t:1", "1::1", "1:t:2147483648", "1:t=:1"]),
            (strings.parse_held, ["", "c@g", "c#1:h:1#t:1", "@g#1:h:1#t:1", "c@#1:h:1#t:1",
                "c@g@h#1:h:1#t:1", "c@g#1:h:1"]),
            (strings.parse_failure, ["", "411", "x:1:h:1#t:1", "411:1:h:1"]),
            (strings.parse_required, ["1:t:1", "1:t:1=", "1:t:1=-1", "1:t=1",
                "1:t:1=9223372036854775808", "1:t:1=1=2"]),
            (strings.parse_topic_filter, ["", "t", "t#", "t# ,", "#a", "t#a#b"]),
            (strings.parse_published, ["", "t", "t#1:2", "t#1:2:3:4", "t#1:2:3#x", "#1:2:3#", "t#1:2:3##"]),
            (strings.parse_subscribable, ["", "t", "t#1:2:3", "t#1:2:3:4:5", "t#a:2:3:1", "#1:2:3:1"]),
            (strings.parse_topic_holdings, ["", "t", "t#1", "t#1:2:3", "t#x:1", "#1:2"]),
            (strings.parse_broker_identity, ["", "1:h:1", "1:h", "x:h:1:2.4.0"]),
        )
        for broken in many
    ],
)  # fmt: skip
def test_whatever_is_malformed_is_quoted(parse: Callable[[str], Any], broken: str) -> None:
    with pytest.raises(ProtocolViolation, match=" is not ") as caught:
        parse(broken)
    assert ast.literal_eval(caught.value.message.partition(" is not ")[0]) in broken


def test_a_long_text_is_quoted_in_part() -> None:
    with pytest.raises(ProtocolViolation) as caught:
        strings.parse_key("x" * 100_000)
    assert len(str(caught.value)) < 400


def test_partitions_of_several_stores_are_numbered_by_ten_thousands() -> None:
    ids = partition_ids(3, 2)
    assert ids == [0, 1, 10000, 10001, 20000, 20001]
    assert [store_of(one) for one in ids] == [0, 0, 1, 1, 2, 2]
    assert [within_store(one) for one in ids] == [0, 1] * 3
    assert [aligned(offset) for offset in (0, 27, 28, 30, 56)] == [0, 0, 28, 28, 56]
