"""``config_file``: TOML, or an INI file as TubeMQ's C++ client reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.client._settings import split_options
from penstock.errors import ConfigError


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
