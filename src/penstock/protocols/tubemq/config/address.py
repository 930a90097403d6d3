"""Address strings as TubeMQ's Go client takes them, as addresses of ours.

``host:port,host:port?topic=a&filters=x&filters=y&topic=b&group=g&msgNotFoundWait=10000``: a filter belongs to the topic
before it. Also ``topics=a,b`` and ``filters=a@x,y``. Durations are milliseconds. What our client has no use for
(``logPath`` and the like) is left out; an unknown key, or a value of the wrong form, is an error.
Source: Apache InLong TubeMQ 2.x, Go client, ``config.ParseAddress``.
"""

from __future__ import annotations

from dataclasses import replace

from penstock.config.address import Address, parse_endpoints
from penstock.config.client import ClientConfig, ConsumerConfig
from penstock.config.fields import normal
from penstock.config.options import ProtocolConfig, canonical_options
from penstock.errors import ConfigError
from penstock.protocols.tubemq.config.names import check_topic
from penstock.protocols.tubemq.config.options import TUBE_OPTIONS, tube_config
from penstock.protocols.tubemq.config.spellings import TUBE_MEANINGLESS, TUBE_SPELLINGS

__all__ = ["go_address", "is_go_address", "parse_go_address"]

MASTER_PORT = 8715
WORDS = ProtocolConfig(port=MASTER_PORT, options=TUBE_OPTIONS, spellings=TUBE_SPELLINGS, absent=TUBE_MEANINGLESS)
"""What any TubeMQ address may say."""

_TOPIC_KEYS = frozenset({"topic", "topics"})
_REPEATED = _TOPIC_KEYS | {"filters"}


def is_go_address(text: str) -> bool:
    """Whether only the Go client would understand it: no scheme but topics among the options, or a key that repeats."""
    scheme, separator, rest = text.rpartition("://")
    keys = [token.partition("=")[0] for token in rest.partition("?")[2].split("&")]
    if separator:
        return scheme.lower() == "tubemq" and any(keys.count(key) > 1 for key in _REPEATED)
    return bool(_TOPIC_KEYS & set(keys))


def go_address(text: str, role: type[ClientConfig]) -> Address | None:
    """The address, if only the Go client would understand the text."""
    return parse_go_address(text, role) if is_go_address(text) else None


def parse_go_address(text: str, role: type[ClientConfig] = ConsumerConfig) -> Address:
    """The same as an address of ours, its options, those of ``role``, under our names. Raises ConfigError.

    >>> str(parse_go_address("127.0.0.1:8715?topic=demo&filters=red&group=g&readTimeout=8000"))
    'tubemq://127.0.0.1:8715/demo?group=g&rpc_timeout_ms=8000&filters=demo%40red'
    """
    masters, question, query = text.rpartition("://")[2].partition("?")
    if not question:
        raise ConfigError(f"{text!r} has no '?'", hint="Write host:port?topic=NAME&group=NAME")
    topics: list[str] = []
    filters: dict[str, list[str]] = {}
    rest: dict[str, str] = {}
    for token in query.split("&"):
        key, equals, value = _decoded(token).partition("=")
        if not equals or not key:
            raise ConfigError(f"{token!r} in {text!r} is not of the form key=value")
        if key in _TOPIC_KEYS:
            topics += [check_topic(topic.strip()) for topic in value.split(",")]
        elif key == "filters":
            _add_filters(filters, topics, value)
        elif key in rest:
            raise ConfigError(f"{key} stands twice in {text!r}")
        else:
            rest[key] = value
    address = Address(
        "tubemq", parse_endpoints(masters, lambda: MASTER_PORT), tuple(dict.fromkeys(topics)), _ours(rest, text, role)
    )
    if not filters:
        return address
    joined = ";".join(f"{topic}@{','.join(items)}" for topic, items in filters.items())
    found = replace(address, options={**address.options, "filters": joined})
    tube_config({"filters": joined})
    return found


def _decoded(token: str) -> str:
    from urllib.parse import unquote_plus

    try:
        return unquote_plus(token, errors="strict")
    except UnicodeDecodeError:
        raise ConfigError(f"{token!r} is not UTF-8 when decoded") from None


def _add_filters(filters: dict[str, list[str]], topics: list[str], value: str) -> None:
    for part in value.split(";"):
        topic, at, items = part.rpartition("@")
        if not at:
            if not topics:
                raise ConfigError(f"filters={value!r} stands before any topic", hint="Put topic=NAME before it")
            topic = topics[-1]
        elif topic not in topics:
            raise ConfigError(f"filters={value!r} is for {topic!r}, which is none of the topics before it")
        filters.setdefault(topic, []).extend(item.strip() for item in items.split(","))


def _ours(given: dict[str, str], text: str, role: type[ClientConfig]) -> dict[str, str]:
    """Options under our names; their values are looked at, so that a wrong one is found here and now."""
    used = {key: value for key, value in given.items() if normal(key) not in TUBE_MEANINGLESS}
    for key in given.keys() - used.keys():
        if key not in {"logPath", "logLevel"} and not given[key].isdigit():
            raise ConfigError(f"{key} in {text!r} is {given[key]!r}, wanted are milliseconds")
    found = {name: str(value) for name, value in canonical_options(role, used, WORDS).items()}
    tube_config({name: value for name, value in found.items() if name in TUBE_OPTIONS})
    return found
