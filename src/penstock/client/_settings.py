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
_SERVERS = ("bootstrap.servers", "bootstrap_servers", "metadata.broker.list")
_FORM = "An address looks like kafka://127.0.0.1:9092/topic?group=name"
_INI = (".ini", ".conf")
"""As TubeMQ's C++ client names its files; all others are TOML."""


def _check_is_text(address: object, role: str) -> None:
    """Raise ConfigError for what other clients' constructors take, with what to write instead."""
    if isinstance(address, str):
        return
    if not isinstance(address, Mapping):
        raise ConfigError(f"the address is {type(address).__name__}, wanted is text", hint=_FORM)
    servers = next((address[name] for name in _SERVERS if address.get(name)), "HOST:PORT")
    kind = {"consumer": "Consumer", "producer": "Producer"}.get(role, "Admin")
    raise ConfigError(
        "a configuration in a dict is not an address",
        hint=f'Write {kind}("kafka://{servers}", **options): dotted names like "group.id" are options here, too',
    )


def split_options(
    address: str, options: Mapping[str, OptionValue], role: str
) -> tuple[str, dict[str, OptionValue], dict[str, OptionValue]]:
    """(address without config_file, keyword options without it, what the file says). Raises ConfigError."""
    _check_is_text(address, role)
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
        raise ConfigError(f"{FILE_OPTION} {path!r} cannot be read: {error}") from None
    read = ini_options if str(path).lower().endswith(_INI) else toml_options
    return address, keywords, read(text, role, str(path))
