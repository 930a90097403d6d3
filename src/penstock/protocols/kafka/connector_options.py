"""Options that jobs for other Kafka connectors use (those of Kafka's Java clients, TLS included), as our own."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from penstock.config.client import ClientConfig, ProducerConfig
from penstock.config.fields import normal
from penstock.errors import ConfigError

__all__ = ["of_jobs", "without_java_tls"]

# TLS: the ``ssl.*`` options of Kafka's Java clients, as our own.
#
# Only a JVM opens Java's own stores (JKS, PKCS12). Kafka's Java clients take PEM files as well, and ours do so by the
# same options. An option whose loss would make a connection less safe than the job asked for is an error with advice.
# Source of names and meanings: Apache Kafka 4.x documentation, "Consumer Configs"; KIP-651 for PEM.
_OF_JAVA: Final = {
    "ssl_enabled_protocols",  # ours are TLS 1.2 and 1.3
    "ssl_keymanager_algorithm",
    "ssl_protocol",
    "ssl_provider",
    "ssl_secure_random_implementation",
    "ssl_trustmanager_algorithm",
}
_ABSENT: Final = {
    "ssl_cipher_suites": "Leave it out: OpenSSL's own choice is used",
    "ssl_engine_factory_class": "Leave it out: there is no JVM client that could run it",
    "ssl_keystore_certificate_chain": "Put key and chain into a PEM file, and name it as ssl.keystore.location",
    "ssl_keystore_key": "Put key and chain into a PEM file, and name it as ssl.keystore.location",
    "ssl_truststore_certificates": "Put them into a PEM file, and name it as ssl.truststore.location",
}
"""Options that cannot be honoured: what to do instead."""

_STORES: Final = {"truststore": "tls_ca_file", "keystore": "tls_certificate_file"}
_PARTS: Final = ("location", "type", "password")
_TRANSLATED: Final = (
    _OF_JAVA
    | {f"ssl_{store}_{part}" for store in _STORES for part in _PARTS}
    | {"security_protocol", "ssl_endpoint_identification_algorithm"}
)
_NOT_HERE: Final = "Use a listener without SASL; SSL can also say who the client is, by a certificate (ssl.keystore.*)"


def without_java_tls(
    given: Mapping[str, str], known_to_protocol: Collection[str]
) -> tuple[dict[str, str], tuple[str, ...]]:
    """(``given`` with Java's TLS options as ours, names of those left out). Raises ConfigError."""
    # A protocol's own option of the same name is not Kafka's.
    names = {normal(name): name for name in given if normal(name) not in known_to_protocol}
    found: dict[str, str] = {}
    if "security_protocol" in names:
        found |= _protocol(given[names["security_protocol"]].strip().upper())
    for store, ours in _STORES.items():
        if f"ssl_{store}_location" in names:
            found[ours] = _pem(store, {part: given.get(names.get(f"ssl_{store}_{part}", "")) for part in _PARTS})
    if "ssl_endpoint_identification_algorithm" in names:
        found |= _name_check(given[names["ssl_endpoint_identification_algorithm"]].strip().lower())
    for same, name in names.items():
        if same in _ABSENT:
            raise ConfigError(f"option {name} cannot be honoured", hint=_ABSENT[same])
        if same.startswith("sasl_"):
            raise ConfigError(f"option {name} cannot be honoured: there is no SASL so far", hint=_NOT_HERE)
    taken = {names[same] for same in _TRANSLATED & names.keys()}
    kept = {name: text for name, text in given.items() if name not in taken}
    if twice := kept.keys() & found.keys():
        raise ConfigError(f"{sorted(twice)[0]} is given twice, once by an option of Kafka's Java client")
    plain = {"security_protocol"} if "tls" not in found else set()
    return {**kept, **found}, tuple(names[same] for same in names if same in _OF_JAVA | plain)


def _protocol(text: str) -> dict[str, str]:
    match text:
        case "SSL":
            return {"tls": "true"}
        case "PLAINTEXT":
            return {}
        case "SASL_SSL" | "SASL_PLAINTEXT":
            raise ConfigError(f"security.protocol {text} cannot be honoured: there is no SASL so far", hint=_NOT_HERE)
        case _:
            raise ConfigError(f"security.protocol is '{text}', wanted is SSL or PLAINTEXT")


def _pem(store: str, parts: Mapping[str, str | None]) -> str:
    """The file of a PEM store. Raises ConfigError for other stores, with the commands that convert them."""
    location, kind = parts["location"] or "", (parts["type"] or "JKS").strip().upper()
    option = f"ssl.{store}.location"
    if kind != "PEM":
        pem = f"{store}.pem"
        raise ConfigError(
            f"option {option} cannot be honoured: {location} is a {kind} store, which only a JVM opens",
            hint=f"Make a PEM file of it, by {_COMMANDS[store, kind == 'PKCS12'].format(location=location, pem=pem)}"
            f" and set ssl.{store}.type=PEM and {option}={pem}",
        )
    if parts["password"]:
        raise ConfigError(
            f"ssl.{store}.password has no meaning for a PEM file",
            hint="Leave it out; an encrypted key has its password in ssl.key.password",
        )
    return location


_COMMANDS: Final = {
    ("truststore", False): "keytool -list -rfc -keystore {location} > {pem}",
    ("truststore", True): "keytool -list -rfc -keystore {location} > {pem}",
    ("keystore", True): "openssl pkcs12 -in {location} -nodes -out {pem}",
    ("keystore", False): "keytool -importkeystore -srckeystore {location} -destkeystore key.p12 -deststoretype PKCS12"
    " && openssl pkcs12 -in key.p12 -nodes -out {pem}",
}
"""By store, and whether it is a PKCS12 one."""


def _name_check(text: str) -> dict[str, str]:
    if text not in {"", "https"}:
        raise ConfigError(f"ssl.endpoint.identification.algorithm is '{text}', wanted is https, or nothing")
    return {} if text else {"tls_check_server_name": "false"}


# All other options.
#
# Options that our clients know are kept. Options that mean something only to a Java client, or only to a member of a
# group (a job's readers never are), are left out. Options that would change which data is read or written are errors.
# Source of the names: Apache Kafka 4.x documentation, "Consumer Configs" and "Producer Configs".
_OF_ANY_CLIENT: Final = (
    "auto.include.jmx.reporter",
    "client.dns.lookup",
    "connections.max.idle.ms",
    "enable.metrics.push",
    "metadata.recovery.rebootstrap.trigger.ms",
    "metadata.recovery.strategy",
    "metric.reporters",
    "metrics.num.samples",
    "metrics.recording.level",
    "metrics.sample.window.ms",
    "receive.buffer.bytes",
    "security.providers",
    "send.buffer.bytes",
    "socket.connection.setup.timeout.max.ms",
)
_OF_MEMBERS: Final = (
    "auto.commit.interval.ms",
    "group.instance.id",
    "group.protocol",
    "group.remote.assignor",
    "heartbeat.interval.ms",
    "max.poll.interval.ms",
    "partition.assignment.strategy",
    "session.timeout.ms",
)
_OF_CONSUMERS: Final = (
    *_OF_ANY_CLIENT,
    *_OF_MEMBERS,
    "check.crcs",  # ours are always checked
    "default.list.offsets.timeout.ms",
    "exclude.internal.topics",
)
_OF_PRODUCERS: Final = (
    *_OF_ANY_CLIENT,
    "compression.gzip.level",
    "compression.lz4.level",
    "compression.zstd.level",
    "metadata.max.idle.ms",
    "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms",
    "retries",  # ours retry until delivery.timeout.ms, which is the default of Java's
)
_LEFT_OUT: Final = {
    "consumer": frozenset(map(normal, _OF_CONSUMERS)),
    "producer": frozenset(map(normal, _OF_PRODUCERS)),
}
_PLAIN: Final = {
    "consumer": {"allow_auto_create_topics": "true"},
    "producer": {"partitioner_ignore_keys": "false"},
}
"""Options that ask for our only behaviour: the value that does."""


def of_jobs(
    role: type[ClientConfig], given: Mapping[str, str], own: Collection[str]
) -> tuple[dict[str, str], set[str]]:
    """(the options that apply here, names of those that do not); ``own`` are options of the address's protocol."""
    which = "producer" if issubclass(role, ProducerConfig) else "consumer"
    secured, of_tls = without_java_tls(given, own)
    kept: dict[str, str] = {}
    dropped = set(of_tls)
    for name, text in secured.items():
        same = normal(name)
        plain = same not in own and _PLAIN[which].get(same) == text.strip().lower()
        if plain or same in _LEFT_OUT[which]:
            dropped.add(name)
        else:
            kept[name] = text
    return kept, dropped
