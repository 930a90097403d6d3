"""Translates the client options of a job, given without ``kafka.`` or the address's scheme, to those of our client.

Jobs come from Spark's Kafka source and sink, so the names of Kafka's client options are understood whatever the
address's protocol is. What must not live here: those names; they belong to the protocol.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping

from penstock.config import ClientConfig, OptionValue, ProtocolConfig
from penstock.config.options import canonical_options
from penstock.config.protocol import both
from penstock.protocols import protocol

__all__ = ["MOVED_FROM", "client_options", "words_of"]

MOVED_FROM = "kafka"
"""The protocol whose options Spark's own connector takes."""


@functools.cache
def words_of(scheme: str) -> ProtocolConfig:
    """The protocol configuration whose option names a job may use."""
    return both(protocol(scheme).config, protocol(MOVED_FROM).config)


def client_options(
    role: type[ClientConfig], given: Mapping[str, str], scheme: str
) -> tuple[dict[str, OptionValue], tuple[str, ...]]:
    """(options in our client's spelling, names of those left out). Raises ConfigError for what cannot be honoured."""
    words = words_of(scheme)
    sort_out = protocol(MOVED_FROM).config.jobs
    kept, left_out = sort_out(role, given, words.options) if sort_out else (given, set[str]())
    return canonical_options(role, kept, words), tuple(sorted(left_out))
