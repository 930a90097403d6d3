"""Addresses: ``scheme://host:port[,host:port…]/topic[,topic…]?group=…&option=value``.

There is one form for every protocol, and one parser of ``host:port`` for texts of users and of servers. IPv6 hosts are
in brackets, which may be left out where only a host is possible. Topics, names and values may be percent-encoded
(RFC 3986, 2.1). `options` knows what the options mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final
from urllib.parse import quote, unquote_to_bytes

from msgspec import Struct, field

from penstock.errors import ConfigError
from penstock.model import Endpoint

__all__ = ["Address", "host_and_port", "parse_address", "parse_endpoints"]

_FORM: Final = "An address looks like kafka://127.0.0.1:9092/topic?group=name"


class Address(Struct, frozen=True):
    """A parsed address: the servers to ask first, the topics, and the options as they were written."""

    scheme: str
    endpoints: tuple[Endpoint, ...]
    topics: tuple[str, ...] = ()
    options: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        text = f"{self.scheme}://{','.join(map(str, self.endpoints))}"
        if self.topics or self.options:
            text += "/" + ",".join(quote(topic, safe="") for topic in self.topics)
        if self.options:
            text += "?" + "&".join(f"{quote(name, safe='')}={quote(value)}" for name, value in self.options.items())
        return text


def _no_port(_: str) -> None:
    """The default: every host must have a port."""


def parse_address(text: str, port_of: Callable[[str], int | None] = _no_port) -> Address:
    """Parse an address. Raises ConfigError, which says what is wrong in which part.

    ``port_of`` returns the default port of a scheme's servers, for hosts without one
    (`penstock.protocols.default_port`).
    >>> parse_address("kafka://10.0.0.1:9092,10.0.0.2:9093/flights?group=stats").endpoints
    (Endpoint(host='10.0.0.1', port=9092), Endpoint(host='10.0.0.2', port=9093))
    """
    text = text.strip()
    scheme, separator, rest = text.partition("://")
    if not separator:
        raise ConfigError(f"address {text!r} has no scheme", hint=_FORM)
    if not _is_scheme(scheme):
        raise ConfigError(f"address {text!r} begins with {scheme!r}, which is not a scheme", hint=_FORM)
    rest, hash_sign, _ = rest.partition("#")
    if hash_sign:
        raise ConfigError(f"address {text!r} has a fragment", hint="Write a '#' inside a name or a value as %23")
    before_query, _, query = rest.partition("?")
    hosts, _, path = before_query.partition("/")
    scheme = scheme.lower()
    return Address(scheme, parse_endpoints(hosts, lambda: port_of(scheme)), _topics(path), _options(query))


def parse_endpoints(text: str, default_port: Callable[[], int | None]) -> tuple[Endpoint, ...]:
    """Parse ``host:port,host,[::1]:port…``. Semicolons and blanks are allowed, too, and so are empty parts.

    Empty text has no endpoints. Raises ConfigError.
    >>> parse_endpoints("a:9092, [::1]:9093,", lambda: None)
    (Endpoint(host='a', port=9092), Endpoint(host='::1', port=9093))
    """
    if not text:
        return ()
    parts = [part.strip() for part in text.replace(";", ",").split(",")]
    found = tuple(_endpoint(part, default_port, text) for part in parts if part)
    if not found:
        raise ConfigError(f"{text!r} names no host", hint="Write HOST:PORT")
    return found


def host_and_port(text: str) -> tuple[str, str]:
    """Split ``host:port`` as servers write it: an IPv6 host with or without brackets, the port after the last colon."""
    host, _, port = text.rpartition(":")
    return host.removeprefix("[").removesuffix("]"), port


def _is_scheme(text: str) -> bool:
    return text[:1].isalpha() and text.isascii() and text.replace("+", "").replace("-", "").replace(".", "").isalnum()


def _endpoint(part: str, default_port: Callable[[], int | None], whole: str) -> Endpoint:
    if "@" in part:
        raise ConfigError(f"{whole!r} names a user", hint="Credentials are options, not part of the host")
    if part.startswith("["):
        host, bracket, after = part[1:].partition("]")
        if not bracket:
            raise ConfigError(f"{part!r} lacks the ']' after its IPv6 host")
        if ":" not in host:
            raise ConfigError(f"{part!r} has brackets around something that is no IPv6 host")
        if after and not after.startswith(":"):
            raise ConfigError(f"{part!r} has {after!r} between host and port")
        colon, port = after[:1], after[1:]
    else:
        host, colon, port = part.partition(":")
        if ":" in port and _is_ipv6(part) and not _is_ipv6(part.rpartition(":")[0]):
            host, colon, port = part, "", ""  # its last part cannot be a port
        elif ":" in port:
            before, _, last = part.rpartition(":")
            written = f"[{before}]:{last}" if _is_ipv6(before) else "[HOST]:PORT"
            raise ConfigError(f"{part!r} has more than one ':'", hint=f"An IPv6 host stands in brackets: {written}")
    if not host:
        raise ConfigError(f"{whole!r} has an empty host")
    if any(letter.isspace() for letter in host):
        raise ConfigError(f"host {host!r} has a blank inside")
    return Endpoint(host, _port(port, part) if colon else _default_port(default_port(), part))


def _is_ipv6(text: str) -> bool:
    from ipaddress import AddressValueError, IPv6Address

    try:
        IPv6Address(text)
    except AddressValueError:
        return False
    return True


def _port(text: str, part: str) -> int:
    if not (text.isascii() and text.isdigit()):
        raise ConfigError(f"{part!r} has port {text!r}, which is not a number")
    port = int(text) if len(text) <= 5 else 65_536
    if not 0 <= port <= 65_535:
        raise ConfigError(f"{part!r} has port {text}, must be 0 to 65535")
    return port


def _default_port(default: int | None, part: str) -> int:
    if default is None:
        raise ConfigError(f"{part!r} has no port, and its scheme has no default one")
    return default


def _topics(path: str) -> tuple[str, ...]:
    if not path:
        return ()
    if "/" in path:
        raise ConfigError(f"path {path!r} has more than one part", hint="Separate topics by commas")
    topics = tuple(_decoded(part, "topic") for part in path.split(","))
    if "" in topics:
        raise ConfigError(f"{path!r} has an empty topic")
    if len(set(topics)) < len(topics):
        raise ConfigError(f"{path!r} names a topic twice")
    return topics


def _options(query: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for part in query.split("&") if query else ():
        raw_name, equals, raw_value = part.partition("=")
        if not equals or not raw_name:
            raise ConfigError(f"{part!r} in the address is not of the form name=value")
        name = _decoded(raw_name, "option")
        if name in found:
            raise ConfigError(f"option {name!r} stands twice in the address")
        found[name] = _decoded(raw_value, f"value of {name}")
    return found


def _decoded(text: str, what: str) -> str:
    position = text.find("%")
    while position >= 0:
        digits = text[position + 1 : position + 3]
        if len(digits) < 2 or any(digit not in "0123456789abcdefABCDEF" for digit in digits):
            raise ConfigError(
                f"{what} {text!r} has a '%' that no two hexadecimal digits follow", hint="'%' itself is %25"
            )
        position = text.find("%", position + 3)
    try:
        return unquote_to_bytes(text).decode()
    except UnicodeDecodeError:
        raise ConfigError(f"{what} {text!r} is not UTF-8 once its percent signs are decoded") from None
