"""Kafka: messages, records, client and front. ``README.md`` in this folder lists the supported APIs."""

from penstock.protocols.kafka.registration import PROTOCOL as PROTOCOL

__all__ = ["PROTOCOL"]
