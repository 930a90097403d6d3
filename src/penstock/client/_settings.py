"""Settings of a client as its constructor gets them: address, keyword arguments, and the file one of them may name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from penstock.config import ConsumerConfig, OptionValue, ProducerConfig, toml_options
from penstock.config.spellings import BOOTSTRAP, normal
from penstock.errors import ConfigError
from penstock.protocols import USUAL, address_of, protocol, schemes

__all__ = ["FILE_OPTION", "split_options", "with_their_defaults"]

FILE_OPTION = "config_file"
_FORM = "An address looks like kafka://127.0.0.1:9092/topic?group=name"


def _check_is_text(address: object, role: str) -> None:
    """Raise ConfigError for what other clients' constructors take, with what to write instead."""
    if isinstance(address, str):
        return
    if not isinstance(address, Mapping):
        raise ConfigError(f"the address is {type(address).__name__}, wanted is text", hint=_FORM)
    scheme, servers = _servers_in(address)
    kind = {"consumer": "Consumer", "producer": "Producer"}.get(role, "Admin")
    raise ConfigError(
        "a configuration in a dict is not an address",
        hint=f'Write {kind}("{scheme}://{servers}", **options): dotted names like "group.id" are options here, too',
    )


def _servers_in(given: Mapping[object, object]) -> tuple[str, object]:
    """Whose word for servers is a key of ``given``, and its value."""
    for scheme in schemes():
        words = [word for row in protocol(scheme).config.spellings if row.ours == BOOTSTRAP for word in row.also]
        for name, value in given.items():
            if value and normal(str(name)) in map(normal, words):
                return scheme, value
    return USUAL, "HOST:PORT"


def split_options(
    address: str, options: Mapping[str, OptionValue], role: str
) -> tuple[str, dict[str, OptionValue], dict[str, OptionValue]]:
    """(address without config_file, keyword options without it, what the file says). Raises ConfigError."""
    _check_is_text(address, role)
    keywords = dict(options)
    parsed = address_of(address, ProducerConfig if role == "producer" else ConsumerConfig)
    address = str(parsed)
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
    others = protocol(parsed.scheme).config.files.items()
    read = next((read for ending, read in others if str(path).lower().endswith(ending)), toml_options)
    return address, keywords, read(text, role, str(path))


def with_their_defaults(
    address: str, options: Mapping[str, OptionValue], file: Mapping[str, OptionValue]
) -> dict[str, OptionValue]:
    """What a consumer's ``file`` says, and the defaults of the client for whose users it, or the address, is written.

    ``address`` and ``options`` are those of `split_options`, ``file`` is what it returned.
    """
    parsed = address_of(address)
    words = protocol(parsed.scheme).config
    path = options.get(FILE_OPTION) or parsed.options.get(FILE_OPTION, "")
    by_address = words.address is not None and words.address(address, ConsumerConfig) is not None
    theirs = words.theirs if by_address or str(path).lower().endswith((*words.files,)) else {}
    said = {words.meaning(name)[0] for name in file}
    return {**{name: value for name, value in theirs.items() if name not in said}, **file}
