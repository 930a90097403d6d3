"""Settings of a client as its constructor gets them: address, keyword arguments, and the file one of them may name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.config import (
    ConsumerConfig,
    OptionValue,
    ProducerConfig,
    ini_options,
    is_go_address,
    parse_address,
    parse_go_address,
    toml_options,
)
from penstock.errors import ConfigError

__all__ = ["FILE_OPTION", "split_options"]

FILE_OPTION = "config_file"
_INI = (".ini", ".conf")
"""As TubeMQ's C++ client names its files; all others are TOML."""


def split_options(
    address: str, options: Mapping[str, OptionValue], role: str
) -> tuple[str, dict[str, OptionValue], dict[str, OptionValue]]:
    """(address without config_file, keyword options without it, what the file says). Raises ConfigError."""
    keywords = dict(options)
    if is_go_address(address):
        address = str(parse_go_address(address, ProducerConfig if role == "producer" else ConsumerConfig))
    parsed = parse_address(address)
    path = keywords.pop(FILE_OPTION, None)
    if FILE_OPTION in parsed.options:
        in_address = parsed.options[FILE_OPTION]
        rest = {name: value for name, value in parsed.options.items() if name != FILE_OPTION}
        address = str(type(parsed)(parsed.scheme, parsed.endpoints, parsed.topics, rest))
        path = in_address if path is None else path
    if path is None:
        return address, keywords, {}
    try:
        text = Path(str(path)).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{FILE_OPTION} {path!r} cannot be read: {error}") from error
    read = ini_options if str(path).lower().endswith(_INI) else toml_options
    return address, keywords, read(text, role, str(path))
