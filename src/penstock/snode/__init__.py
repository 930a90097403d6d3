"""The service node: it assembles listeners, services and enodes, and starts and stops them."""

from penstock.snode.node import Node as Node

__all__ = ["Node"]
