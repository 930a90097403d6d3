"""The service node: listeners, services and the enodes behind them; assembly and lifecycle."""

from penstock.snode.node import Node as Node

__all__ = ["Node"]
