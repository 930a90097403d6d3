"""Kafka's messages: declarations as data, one module for a family of APIs, and the codec that reads and writes them."""

from penstock.protocols.kafka.messages.catalog import api_of, known, versions
from penstock.protocols.kafka.messages.codec import decode, encode
from penstock.protocols.kafka.messages.headers import (
    RequestHeader,
    read_header,
    read_request,
    read_response,
    request,
    response,
)

__all__ = [
    "RequestHeader",
    "api_of",
    "decode",
    "encode",
    "known",
    "read_header",
    "read_request",
    "read_response",
    "request",
    "response",
    "versions",
]
