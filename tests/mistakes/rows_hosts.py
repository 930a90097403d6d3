"""Hosts and ports: what is wrong with the connection is said in a line, and soon."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial

import penstock
from penstock import ConfigError, ConnectionLost, PenstockError
from tests.mistakes.row import Mistake, World, mistake

TABLE: list[Mistake] = []
row = partial(mistake, TABLE)


def ask(world: World, where: str, within_ms: int = 1_500, **options: penstock.OptionValue) -> None:
    """What the first call of any client asks; long enough to hear, on a busy machine, what is wrong."""
    limits = dict.fromkeys(("first_contact_timeout_ms", "api_timeout_ms", "connect_timeout_ms"), within_ms)
    with penstock.RangeReader(f"{world.scheme}://{where}", **limits, **options) as reader:
        reader.topics(["orders"])


@contextmanager
def silent_port() -> Iterator[int]:
    """Takes connections, and says nothing."""
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


@contextmanager
def closed_port() -> Iterator[int]:
    """Nobody listens, and nobody else can get it."""
    with closing(socket.socket()) as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


@row(r"has no scheme\. An address looks like kafka://", ConfigError)
def an_address_without_a_protocol(world: World) -> None:
    penstock.Producer("127.0.0.1:9092")


@row(r"names no host\. Write kafka://HOST:PORT|tubemq://HOST:PORT", ConfigError)
def an_address_without_a_host(world: World) -> None:
    penstock.Producer(f"{world.scheme}:///orders")


@row("has port 'port', which is not a number", ConfigError)
def a_port_in_letters(world: World) -> None:
    penstock.Producer(f"{world.scheme}://127.0.0.1:port")


@row("has port 99999, must be 0 to 65535", ConfigError)
def a_port_that_is_too_large(world: World) -> None:
    penstock.Producer(f"{world.scheme}://127.0.0.1:99999")


@row("An IPv6 host stands in brackets", ConfigError)
def an_ipv6_host_without_brackets(world: World) -> None:
    penstock.Producer(f"{world.scheme}://::1:9092")


@row("cannot connect: there is no address for the host no-such-host.invalid: .* spelled right", ConnectionLost)
def a_host_that_there_is_not(world: World) -> None:
    ask(world, "no-such-host.invalid:9092")


@row(r"is not a host name|has characters", PenstockError)
def a_host_longer_than_names_are(world: World) -> None:
    ask(world, f"{'h' * 300}:9092")


@row(r"cannot connect: Connection refused .*Is anything listening on 127\.0\.0\.1", ConnectionLost)
def a_port_where_nobody_listens(world: World) -> None:
    with closed_port() as port:
        ask(world, f"127.0.0.1:{port}")


@row(r"not ready within 0\.\d+ s|no answer within|does not answer", PenstockError)
def a_port_that_says_nothing(world: World) -> None:
    with silent_port() as port:
        ask(world, f"127.0.0.1:{port}", within_ms=400, request_timeout_ms=300, fetch_max_wait_ms=100)


@row("closed it, before it had said anything .* a port of this protocol. Servers that want TLS", ConnectionLost)
def the_port_of_another_protocol(world: World) -> None:
    ask(world, f"127.0.0.1:{world.other_port}")


@row("no TLS with this server: it hung up .*is a port without TLS, leave tls out", ConnectionLost)
def tls_on_a_plain_port(world: World) -> None:
    ask(world, f"127.0.0.1:{world.port}", tls=True)


@row("tls_ca_file is set, but tls is not. Add tls=true", ConfigError)
def a_certificate_without_tls(world: World) -> None:
    ask(world, f"127.0.0.1:{world.port}", tls_ca_file="ca.pem")


@row("tls_ca_file, tls_certificate_file or tls_key_file cannot be read", ConfigError)
def a_certificate_that_is_not_there(world: World) -> None:
    ask(world, f"127.0.0.1:{world.port}", tls=True, tls_ca_file="/nowhere/ca.pem")
