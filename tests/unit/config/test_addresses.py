"""Addresses: what they mean, and what is said about wrong ones."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.config import Address, consumer_settings, parse_address, parse_endpoints
from penstock.errors import ConfigError
from penstock.model import Endpoint
from penstock.protocols import address_of, protocol


def test_everything_an_address_can_say() -> None:
    found = address_of("kafka://a.example,b:9093,[::1]:9094,[fe80::2]/flights,de%20lays?group=st%26ats&linger.ms=5")
    assert found == Address(
        "kafka",
        (Endpoint("a.example", 9092), Endpoint("b", 9093), Endpoint("::1", 9094), Endpoint("fe80::2", 9092)),
        ("flights", "de lays"),
        {"group": "st&ats", "linger.ms": "5"},
    )


@pytest.mark.parametrize("scheme", ["kafka", "rocketmq", "tubemq"])
@pytest.mark.parametrize(
    ("hosts", "found"),
    [
        ("a:1,", [("a", 1)]),
        (" a:1 , b:2 ,", [("a", 1), ("b", 2)]),
        (",a:1,,b:2", [("a", 1), ("b", 2)]),
        ("a:1; b:2;", [("a", 1), ("b", 2)]),
        ("[::1]:1", [("::1", 1)]),
        ("[::1]", [("::1", 7)]),
        ("::1", [("::1", 7)]),
        ("fe80::1, 2001:db8:1:2:3:4:5:6,a:1", [("fe80::1", 7), ("2001:db8:1:2:3:4:5:6", 7), ("a", 1)]),
    ],
)
def test_hosts_as_people_write_them(scheme: str, hosts: str, found: list[tuple[str, int]]) -> None:
    wanted = tuple(Endpoint(*each) for each in found)
    assert parse_endpoints(hosts, lambda: 7) == wanted
    address = parse_address(f" {scheme}://{hosts}/t\n", lambda _: 7)
    assert (address.endpoints, address.topics) == (wanted, ("t",))


@pytest.mark.parametrize("scheme", ["kafka", "rocketmq", "tubemq"])
def test_servers_may_be_an_option(scheme: str) -> None:
    found = consumer_settings(
        f"{scheme}:///t", {"bootstrap.servers": "a:1, [::1]:2,"}, protocol=protocol(scheme).config
    )
    assert found.address.endpoints == (Endpoint("a", 1), Endpoint("::1", 2))


@pytest.mark.parametrize(("scheme", "port"), [("kafka", 9092), ("tubemq", 8715)])
def test_each_scheme_has_its_port(scheme: str, port: int) -> None:
    assert address_of(f"{scheme}://host").endpoints == (Endpoint("host", port),)


def test_a_scheme_without_a_protocol_has_no_port() -> None:
    with pytest.raises(ConfigError, match="there is no protocol 'nothing'"):
        address_of("nothing://host")


def test_an_address_of_a_protocols_own_form_is_understood() -> None:
    found = address_of("h:1?topic=demo&group=g&filters=red")
    assert str(found) == "tubemq://h:1/demo?group=g&filters=demo%40red"
    assert address_of("tubemq://h?topic=aa&topic=bb").topics == ("aa", "bb")


def test_separators_of_tags_reach_their_protocol() -> None:
    assert parse_address("rocketmq://h:1/orders?tags=Paid||Refunded").options == {"tags": "Paid||Refunded"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("localhost:9092", "no scheme"),
        ("9://h", "not a scheme"),
        ("kafka://h:port", "not a number"),
        ("kafka://h:70000", "0 to 65535"),
        ("kafka://h:99999999999999999999", "0 to 65535"),
        ("kafka://::1:9092", r"stands in brackets: \[::1\]:9092"),
        ("tubemq://2001:db8::7:8", r"stands in brackets: \[2001:db8::7\]:8"),
        ("kafka://a:b:c", "more than one ':'"),
        ("kafka://[::1", "lacks the ']'"),
        ("kafka://[host]:1", "no IPv6 host"),
        ("kafka://[::1]x:1", "between host and port"),
        ("kafka://,", "names no host"),
        ("kafka:// , ;/t", "names no host"),
        ("kafka://:9092", "empty host"),
        ("kafka://user:secret@h", "names a user"),
        ("toy://h", "no default one"),
        ("kafka://h/a/b", "more than one part"),
        ("kafka://h/a,,b", "empty topic"),
        ("kafka://h/a,a", "twice"),
        ("kafka://h/%zz", "hexadecimal"),
        ("kafka://h/%ff", "UTF-8"),
        ("kafka://h?group", "name=value"),
        ("kafka://h?=x", "name=value"),
        ("kafka://h?a=1&a=2", "twice"),
        ("kafka://h/t#x", "fragment"),
    ],
)
def test_a_wrong_address_is_told_what_is_wrong_with_it(text: str, complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        parse_address(text, {"kafka": 9092}.get)


@given(st.text(max_size=60))
def test_any_text_is_an_address_or_a_config_error(rest: str) -> None:
    for text in (rest, "kafka://" + rest, "kafka://h/" + rest, "kafka://h?" + rest):
        try:
            found = parse_address(text, {"kafka": 9092}.get)
        except ConfigError:
            continue
        assert parse_address(str(found)) == found


names = st.text(min_size=1, max_size=20)


@given(st.lists(names, unique=True, max_size=3), st.dictionaries(names, st.text(max_size=20), max_size=3))
def test_an_address_that_was_written_is_read_back(topics: list[str], options: dict[str, str]) -> None:
    address = Address("kafka", (Endpoint("h", 1), Endpoint("::1", 2)), tuple(topics), options)
    assert parse_address(str(address)) == address
