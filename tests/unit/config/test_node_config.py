"""A node's listeners and store."""

from __future__ import annotations

import pytest

from penstock.config import ListenAddress, OptionValue, SnodeConfig, parse_listener, snode_config
from penstock.errors import ConfigError
from penstock.model import Endpoint


def test_a_node_is_told_everything_as_text() -> None:
    found = snode_config(
        {
            "store": "file:/data",
            "listen": ["kafka://127.0.0.1:0"],
            "default_partitions": "3",
            "auto_create_topics": "no",
        }
    )
    assert found == SnodeConfig(
        store="file:/data",
        listen=(ListenAddress("kafka", Endpoint("127.0.0.1", 0)),),
        default_partitions=3,
        auto_create_topics=False,
    )


@pytest.mark.parametrize("text", ["kafka://h/topic", "kafka://a,b", "http://h", "kafka://h?x=1", "nothing"])
def test_a_listener_is_one_address_and_nothing_more(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_listener(text)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"listen": []}, "listens nowhere"),
        ({"listen": "kafka://127.0.0.1:1,kafka://127.0.0.1:2"}, "two listeners"),
        ({"stoer": "memory:"}, "Did you mean 'store'"),
        ({"advertised": "tubemq://127.0.0.1:1"}, "nothing listens for it"),
        ({"listen": 5}, "wanted is a list"),
        ({"default_partitions": 0}, "allowed is 1"),
    ],
)
def test_a_node_is_refused_what_cannot_be(options: dict[str, OptionValue], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        snode_config(options)
