"""Which topic lives where: the rules as people write them, and what is said of those that cannot be meant."""

from __future__ import annotations

import pytest

from penstock.config import SnodeConfig, parse_listener, snode_config
from penstock.config.snode import read_places, shown
from penstock.errors import ConfigError
from penstock.protocols import configs

LISTEN = (parse_listener("kafka://127.0.0.1:0"),)
CLUSTERS = ("kafka://a:9092", "rocketmq://b:9876?access_key=x")


@pytest.mark.parametrize(
    ("topic", "place"),
    [
        ("orders-eu", 1),
        ("orders-", 1),
        ("orders", 0),
        ("xorders-eu", 0),
        ("pay1", 2),
        ("pay", 0),
        ("pay12", 0),
        ("a.b", 2),
        ("aXb", 0),
        ("x", 1),
        ("y", 1),
        ("", 0),
    ],
)
def test_the_first_pattern_that_fits_the_whole_name_says_where_a_topic_lives(topic: str, place: int) -> None:
    rules = ["orders-*=kafka", "pay?=rocketmq", "a.b=rocketmq://b:9876", "x,y=kafka"]
    assert read_places("memory:", CLUSTERS, rules).of(topic) == place


def test_a_narrow_rule_comes_before_a_wide_one() -> None:
    places = read_places("kafka://a:1", ["kafka://b:2"], ["orders-eu=kafka://a:1", "orders-*=kafka://b:2"])
    assert [places.of(each) for each in ("orders-eu", "orders-us", "other")] == [0, 1, 0]


def test_a_rule_for_all_says_what_the_usual_place_is() -> None:
    places = read_places("memory:", ["kafka://a:1"], ["mine=store", "*=kafka"])
    assert [places.of(each) for each in ("mine", "other")] == [0, 1]


@pytest.mark.parametrize(
    ("store", "enodes", "topics", "says", "hint"),
    [
        ("memory:", (), ("a=store",), "only one place", "--enode"),
        ("memory:", ("kafka://a:1",), (), "no topic lives in kafka://a:1", "--topics 'PATTERN=kafka://a:1'"),
        ("kafka://a:1", ("kafka://b:1",), ("*=kafka://b:1",), "no topic lives in kafka://a:1", "leave it out"),
        ("memory:", ("file:x",), ("a=store",), "no address of a cluster", "kafka://HOST:9092"),
        ("memory:", ("kafka://a:1", "kafka://a:1?x=y"), ("a=kafka",), "kafka://a:1 is named twice", "once"),
        ("memory:", ("kafka://a:1",), ("orders",), "'orders' is no rule", "PATTERN=PLACE"),
        ("memory:", ("kafka://a:1",), ("=kafka",), "is no rule", "PATTERN=PLACE"),
        ("memory:", ("kafka://a:1",), ("a,,b=kafka",), "pattern ''", "topic's name"),
        ("memory:", ("kafka://a:1",), ("a[12]=kafka",), "pattern 'a[12]'", "* for any letters"),
        ("memory:", ("kafka://a:1",), ("__x=kafka",), "servers keep for themselves", "leave the rule out"),
        ("memory:", ("kafka://a:1",), ("a=tubemq",), "'tubemq', which is no place", "store, kafka"),
        ("kafka://a:1", ("kafka://b:1",), ("a=store",), "'store', which is no place", "kafka://a:1, kafka://b:1"),
        ("memory:", ("kafka://a:1", "kafka://b:1"), ("a=kafka",), "kafka://a:1 and kafka://b:1", "the address"),
        ("memory:", ("kafka://a:1",), ("a=kafka", "a=store"), "in two places", "one of the two"),
        ("memory:", ("kafka://a:1",), ("a=kafka", "a=kafka"), "twice", "one of the two"),
        ("memory:", ("kafka://a:1",), ("a*=kafka", "ab=store"), "never counts for 'ab'", "narrower rule first"),
        ("memory:", ("kafka://a:1",), ("*=kafka", "a*=store"), "never counts for 'a*'", "narrower rule first"),
        ("memory:", ("kafka://a:1",), ("a?*=kafka", "a??=store"), "never counts for 'a??'", "narrower rule first"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_what_to_do(
    store: str, enodes: tuple[str, ...], topics: tuple[str, ...], says: str, hint: str
) -> None:
    with pytest.raises(ConfigError) as refused:
        SnodeConfig(store=store, enodes=enodes, topics=topics, listen=LISTEN)
    assert says in refused.value.message
    assert hint in (refused.value.hint or "")


@pytest.mark.parametrize(("first", "second"), [("a?", "a*"), ("a*", "?b"), ("a*b", "a*"), ("*-x", "a-*"), ("??", "*")])
def test_rules_that_overlap_may_stand_in_any_order_that_lets_both_count(first: str, second: str) -> None:
    assert read_places("memory:", ["kafka://a:1"], [f"{first}=kafka", f"{second}=store"]).rules


def test_no_secret_of_an_address_is_told() -> None:
    assert shown("rocketmq://b:9876/?access_key=x&secret_key=y") == "rocketmq://b:9876"
    with pytest.raises(ConfigError) as refused:
        read_places("memory:", ["rocketmq://b:1?secret_key=hush"], ["a=kafka"])
    assert "hush" not in str(refused.value)


def test_options_of_a_file_or_a_line_say_the_same() -> None:
    given = {"store": "memory:", "listen": "kafka://127.0.0.1:0"}
    line = snode_config(
        {**given, "enodes": "kafka://a:1 kafka://b:1", "topics": "a=kafka://a:1 b,c=kafka://b:1"}, configs()
    )
    file = snode_config(
        {**given, "enodes": ["kafka://a:1", "kafka://b:1"], "topics": ["a=kafka://a:1", "b,c=kafka://b:1"]}, configs()
    )
    assert line == file
    assert [line.places.of(each) for each in ("a", "b", "c", "d")] == [1, 2, 2, 0]
    with pytest.raises(ConfigError, match="list of texts"):
        SnodeConfig(listen=LISTEN, topics="a=store")  # type: ignore[arg-type]
