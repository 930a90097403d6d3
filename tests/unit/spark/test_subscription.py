"""What is read of the topics that are there: by name, by pattern, by partition."""

import pytest

from penstock.errors import ConfigError, UsageError
from penstock.model import Endpoint, Node, Partition, PartitionInfo, TopicInfo
from penstock.spark._options import Subscription, parse_subscription

NODE = Node("7", Endpoint("h", 1))


def topic(name: str, partitions: int, *, internal: bool = False) -> TopicInfo:
    infos = tuple(PartitionInfo(Partition(name, each), NODE if each else None) for each in range(partitions))
    return TopicInfo(name, infos, internal=internal)


FOUND = {
    each.name: each for each in (topic("orders-eu", 2), topic("orders-us", 1), topic("old-orders-eu", 1), topic("o", 1))
}
FOUND["orders-internal"] = topic("orders-internal", 1, internal=True)


def read(**options: str) -> dict[str, str]:
    subscription = parse_subscription(options, ())
    names = subscription.names
    found = FOUND if names is None else {name: FOUND[name] for name in names if name in FOUND}
    return {str(partition): leader for partition, leader in subscription.leaders(found).items()}


def test_pattern_matches_whole_names_and_nothing_internal() -> None:
    assert read(subscribePattern="orders-.*") == {"orders-eu-0": "", "orders-eu-1": "7", "orders-us-0": ""}
    assert read(subscribePattern="o") == {"o-0": ""}
    assert read(subscribePattern="x.*") == {}


def test_names() -> None:
    assert read(subscribe=" orders-us,, o ,o") == {"orders-us-0": "", "o-0": ""}
    assert read(subscribe="orders-internal") == {"orders-internal-0": ""}  # asked for by name


def test_partitions() -> None:
    assert read(assign='{"orders-eu":[1],"o":[0]}') == {"orders-eu-1": "7", "o-0": ""}


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (Subscription(topics=("o", "gone")), "topic gone does not exist"),
        (Subscription(assigned=frozenset({Partition("o", 5)})), "partition o-5 does not exist"),
    ],
)
def test_what_is_not_there_is_told(given: Subscription, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        given.check_all_exist([Partition("o", 0)])


@pytest.mark.parametrize("text", ["[1]", "{}", '{"a":1}', '{"a":["x"]}', "{", '{"a":[-1]}', '{"a":[]}'])
def test_assign_that_makes_no_sense_is_told(text: str) -> None:
    with pytest.raises(ConfigError, match="assign"):
        parse_subscription({"assign": text}, ())
