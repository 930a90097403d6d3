"""A node's listeners and store."""

from __future__ import annotations

import pytest

from penstock.config import ListenAddress, OptionValue, SnodeConfig, parse_listener, snode_config
from penstock.config.fields import fields
from penstock.errors import ConfigError
from penstock.model import Endpoint
from penstock.protocols import configs
from penstock.protocols.kafka.config import KafkaNodeConfig
from penstock.protocols.tubemq.config import TubeNodeConfig


def test_a_node_is_told_everything_as_text() -> None:
    found = snode_config(
        {
            "store": "file:/data",
            "listen": ["kafka://127.0.0.1:0"],
            "default_partitions": "3",
            "auto_create_topics": "no",
            "tubemq_timeout_ms": "9000",
        },
        configs(),
    )
    assert found == SnodeConfig(
        store="file:/data",
        listen=(ListenAddress("kafka", Endpoint("127.0.0.1", 0)),),
        default_partitions=3,
        auto_create_topics=False,
        fronts=(TubeNodeConfig(tubemq_timeout_ms=9_000),),
    )
    assert found.front(TubeNodeConfig).tubemq_timeout_ms == 9_000
    assert found.front(KafkaNodeConfig) == KafkaNodeConfig()


def test_a_listener_without_a_port_has_that_of_its_protocol() -> None:
    found = snode_config({"listen": "kafka://127.0.0.1,tubemq://127.0.0.1"}, configs())
    assert [listen.endpoint.port for listen in found.listen] == [9092, 8715]


def test_no_two_of_a_nodes_options_have_one_name() -> None:
    fronts = [fields(kind) for kind in {config.front for config in configs().values()} if kind is not None]
    names = [option.name for options in (fields(SnodeConfig), *fronts) for option in options]
    assert len(names) == len(set(names))


@pytest.mark.parametrize("text", ["kafka://h/topic", "kafka://a,b", "http://h", "kafka://h?x=1", "nothing"])
def test_a_listener_is_one_address_and_nothing_more(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_listener(text)


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        ({"listen": []}, "listens nowhere"),
        ({"group_min_session_timeout_ms": 9, "group_max_session_timeout_ms": 8}, "more than group_max_session"),
        ({"listen": "kafka://127.0.0.1:1,kafka://127.0.0.1:2"}, "two listeners"),
        ({"stoer": "memory:"}, "Did you mean 'store'"),
        ({"listen": "kafka://127.0.0.1:1", "advertised": "tubemq://127.0.0.1:1"}, "nothing listens for it"),
        ({"listen": 5}, "expected a list"),
        ({"default_partitions": 0}, "must be 1"),
        ({"tubemq_timeout_ms": 1}, "tubemq_timeout_ms is 1, must be"),
    ],
)
def test_a_node_is_refused_what_cannot_be(options: dict[str, OptionValue], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        snode_config(options, configs())
