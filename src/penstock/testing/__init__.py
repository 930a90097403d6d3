"""For tests: a node in the test's process (``Broker``), one in its own (``NodeProcess``), and faults on demand."""

from penstock.testing.broker import Broker
from penstock.testing.faults import Faults
from penstock.testing.process import NodeProcess

__all__ = ["Broker", "Faults", "NodeProcess"]
