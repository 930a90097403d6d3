"""What stands before all else of TubeMQ's: the package it needs, and how all its frames begin."""

from __future__ import annotations

from typing import Final

from penstock.extras import Extra

__all__ = ["EXTRA", "GREETING"]

EXTRA: Final = Extra("tubemq", ("google.protobuf",), "TubeMQ's protocol, in clients and nodes")

GREETING: Final = b"\xff\x7f\xf4\xfe"
"""``RpcProtocol.RPC_PROTOCOL_BEGIN_TOKEN``."""
