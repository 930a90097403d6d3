"""A job's TLS options are taken as they are, or refused with what to do instead; never ignored."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.errors import ConfigError
from penstock.spark._options import parse_options
from penstock.spark._sink_options import parse_sink_options

SERVERS = {"kafka.bootstrap.servers": "h:1"}
SSL = {"kafka.security.protocol": "SSL"}
TRUST = {**SSL, "kafka.ssl.truststore.type": "PEM", "kafka.ssl.truststore.location": "/ca.pem"}


def read(**options: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    parsed = parse_options({**SERVERS, "subscribe": "t", **options})
    return dict(parsed.client), parsed.left_out


def written(**options: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    parsed = parse_sink_options({**SERVERS, "topic": "t", **options})
    return dict(parsed.client), parsed.left_out


@pytest.mark.parametrize("parse", [read, written])
@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({"kafka.security.protocol": "plaintext"}, ({}, ("security.protocol",))),
        (SSL, ({"tls": "true"}, ())),
        ({"kafka.tls": "true"}, ({"tls": "true"}, ())),
        (TRUST, ({"tls": "true", "tls_ca_file": "/ca.pem"}, ())),
        (
            {**SSL, "kafka.ssl.ca.location": "/ca.pem", "kafka.ssl.key.location": "k",
             "kafka.ssl.certificate.location": "c"},
            ({"tls": "true", "tls_ca_file": "/ca.pem", "tls_key_file": "k", "tls_certificate_file": "c"}, ()),
        ),
        (
            {**SSL, "kafka.ssl.keystore.type": "pem", "kafka.SSL.keystore.location": "me.pem",
             "kafka.ssl.key.password": "p"},
            ({"tls": "true", "tls_certificate_file": "me.pem", "tls_key_password": "p"}, ()),
        ),
        (
            {**SSL, "kafka.ssl.endpoint.identification.algorithm": ""},
            ({"tls": "true", "tls_check_server_name": "false"}, ()),
        ),
        ({**SSL, "kafka.ssl.endpoint.identification.algorithm": "HTTPS"}, ({"tls": "true"}, ())),
        (
            {**SSL, "kafka.ssl.protocol": "TLSv1.3", "kafka.ssl.enabled.protocols": "TLSv1.2,TLSv1.3"},
            ({"tls": "true"}, ("ssl.enabled.protocols", "ssl.protocol")),
        ),
    ],
)  # fmt: skip
def test_javas_names_become_ours(parse: Any, given: dict[str, str], expected: Any) -> None:
    assert parse(**given) == expected


@pytest.mark.parametrize("parse", [read, written])
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"security.protocol": "SASL_SSL"}, "there is no SASL so far"),
        ({"security.protocol": "TLS"}, "security.protocol is 'TLS', wanted is SSL or PLAINTEXT"),
        ({"security.protocol": "SSL", "sasl.mechanism": "PLAIN"}, "sasl.mechanism cannot be honoured"),
        (
            {"security.protocol": "SSL", "ssl.truststore.location": "/a.jks", "ssl.truststore.password": "hush"},
            "/a.jks is a JKS store, which only a JVM opens; Make a PEM file of it, by"
            " keytool -list -rfc -keystore /a.jks > truststore.pem and set ssl.truststore.type=PEM",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/a.p12", "ssl.keystore.type": "PKCS12"},
            "openssl pkcs12 -in /a.p12 -nodes -out keystore.pem and set kafka.ssl.keystore.type=PEM and"
            " kafka.ssl.keystore.location=keystore.pem",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "/a.jks"},
            "keytool -importkeystore -srckeystore /a.jks -destkeystore key.p12 -deststoretype PKCS12 && openssl pkcs12",
        ),
        (
            {"security.protocol": "SSL", "ssl.keystore.location": "a", "ssl.keystore.type": "PEM",
             "ssl.keystore.password": "hush"},
            "ssl.keystore.password has no meaning for a PEM file",
        ),
        ({"security.protocol": "SSL", "ssl.truststore.certificates": "-----"}, "Put them into a PEM file"),
        ({"security.protocol": "SSL", "ssl.keystore.key": "hush"}, "Put key and chain into a PEM file"),
        ({"security.protocol": "SSL", "ssl.cipher.suites": "x"}, "ssl.cipher.suites cannot be honoured"),
        ({"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "ldaps"}, "wanted is https"),
        ({"security.protocol": "SSL", "tls": "false"}, "tls is given twice"),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            "tls_ca_file is set, but tls is not; Add tls=true (in Spark security.protocol=SSL)",
        ),
        (
            {"security.protocol": "PLAINTEXT", "ssl.truststore.type": "PEM", "ssl.truststore.location": "/ca.pem"},
            "tls_ca_file is set, but tls is not",
        ),
        ({"security.protocol": "SSL", "ssl.key.password": "hush"}, "a kafka.ssl.key.password, but no tls_certificate"),
        ({"security.protocol": "SSL", "ssl.truststore.locaton": "x"}, "there is no option"),
    ],
)  # fmt: skip
def test_what_cannot_be_honoured_is_told_with_what_to_do(parse: Any, given: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse(**{f"kafka.{name}": text for name, text in given.items()})
    assert told in str(caught.value).replace(". ", "; ")
    assert "hush" not in str(caught.value)


def test_passwords_are_not_shown() -> None:
    from penstock.config import ConsumerConfig

    config = ConsumerConfig(tls=True, tls_certificate_file="c", tls_key_password="hush")
    assert "hush" not in repr(config)


def test_dead_letters_for_the_same_log_go_there_as_safely() -> None:
    options = {"valueFormat": "json", "valueSchema": "i int", "mode": "DEADLETTER"}
    given = {**SERVERS, "subscribe": "t", **options, **TRUST, "kafka.fetch.max.wait.ms": "5"}
    found = []
    for where in ("dead", "kafka://other:2/dead"):
        decoding = parse_options({**given, "deadLetter": where}).decoding
        assert decoding is not None
        assert decoding.dead_letters is not None
        found.append(decoding.dead_letters.client)
    assert found == [{"tls": "true", "tls_ca_file": "/ca.pem"}, {}]
