"""Settings from elsewhere: files, TOML or as TubeMQ's C++ client reads them; address strings of its Go client."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.client import AsyncConsumer
from penstock.client.connecting import split_options, with_their_defaults
from penstock.config import OptionValue
from penstock.errors import ConfigError
from penstock.protocols.tubemq.client.options import options_of
from penstock.protocols.tubemq.config import ConsumePosition


def test_an_ini_file_is_known_by_its_name(tmp_path: Path) -> None:
    for name in ("client.conf", "client.INI"):
        path = tmp_path / name
        path.write_text("[TubeMQ]\nlog_size=100\nreadTimeout=9000\n")
        assert split_options("tubemq://h:1", {"config_file": str(path)}, "consumer")[2] == {"readTimeout": "9000"}


def test_any_other_file_is_toml(tmp_path: Path) -> None:
    path = tmp_path / "client.toml"
    path.write_text("[client]\nclient_id = 'x'\n")
    assert split_options(f"tubemq://h:1?config_file={path}", {}, "consumer")[2] == {"client_id": "x"}
    path.write_text("[TubeMQ]\nlog_size=100\n")
    with pytest.raises(ConfigError, match="TubeMQ"):
        split_options("tubemq://h:1", {"config_file": str(path)}, "consumer")


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("h:1?topics=t1,t2&group=g1&readTimeout=9000", "tubemq://h:1/t1,t2?group=g1&rpc_timeout_ms=9000"),
        ("tubemq://h:1?topic=t1&filters=a&filters=b&group=g1", "tubemq://h:1/t1?group=g1&filters=t1%40a%2Cb"),
        ("tubemq://h:1/t1?group=g1", "tubemq://h:1/t1?group=g1"),
    ],
)
def test_address_strings_of_the_go_client_are_understood(given: str, address: str) -> None:
    assert split_options(given, {}, "consumer")[0] == address


def test_they_are_none_of_other_schemes() -> None:
    with pytest.raises(ConfigError, match="twice"):
        split_options("kafka://h:1?topic=t1&topic=t2", {}, "consumer")


def test_a_producer_s_options_may_stand_in_a_go_address() -> None:
    assert split_options("h:1?topic=t1&linger_ms=3", {}, "producer")[0] == "tubemq://h:1/t1?linger_ms=3"
    with pytest.raises(ConfigError, match="option of a producer"):
        split_options("h:1?topic=t1&linger_ms=3", {}, "consumer")


LATEST = {"auto_offset_reset": "latest"}


@pytest.mark.parametrize(
    ("address", "options", "meant"),
    [
        ("h:1?topic=t1&group=g1", {}, LATEST),
        ("tubemq://h:1?topic=t1&filters=a&filters=b&group=g1", {}, LATEST),
        ("tubemq://h:1/t1?group=g1", {}, {}),
        ("tubemq://h:1/t1", {"config_file": "client.INI"}, LATEST),
        ("tubemq:///t1?config_file=client.conf", {}, LATEST),
        ("tubemq://h:1/t1", {"config_file": "client.toml"}, {}),
        ("kafka://h:1/t1", {"config_file": "client.conf"}, {}),
    ],
)
def test_an_address_or_a_file_of_tubemq_s_other_clients_means_their_default(
    address: str, options: dict[str, OptionValue], meant: dict[str, OptionValue]
) -> None:
    assert with_their_defaults(address, options, {}) == meant


@pytest.mark.parametrize(
    ("said", "in_file", "position"),
    [
        ({}, "", ConsumePosition.LATEST),
        ({"auto_offset_reset": "earliest"}, "", ConsumePosition.FIRST),
        ({"consume_position": "first"}, "", ConsumePosition.FIRST),
        ({}, "consumePosition=-1", ConsumePosition.FIRST),
        ({}, "auto.offset.reset=earliest", ConsumePosition.FIRST),
        ({}, "consumePosition=1", ConsumePosition.ALWAYS_LATEST),
    ],
)
def test_what_is_said_anywhere_counts_before_such_a_default(
    said: dict[str, OptionValue], in_file: str, position: ConsumePosition, tmp_path: Path
) -> None:
    file = tmp_path / "client.conf"
    file.write_text(f"[TubeMQ]\nmasterAddrInfo=h:1\n[consumer]\ngroup=g1\n{in_file}\n")
    settings = AsyncConsumer("tubemq:///t1", config_file=str(file), **said)._settings
    assert options_of(settings.config, settings.extra).position is position
    settings = AsyncConsumer(f"h:1?topic=t1&group=g1&{in_file}".rstrip("&"), **said)._settings
    assert options_of(settings.config, settings.extra).position is position
