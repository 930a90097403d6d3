"""For tests: a node in the test's process (``Broker``), one in its own process (``NodeProcess``), and fault injection.

Names are loaded on first use, because this package has the pytest plugin, and pytest imports it in every project of an
environment with penstock.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from penstock.testing.broker import Broker as Broker
    from penstock.testing.broker import Faults as Faults
    from penstock.testing.broker import Moment as Moment
    from penstock.testing.process import NodeProcess as NodeProcess

__all__ = ["Broker", "Faults", "Moment", "NodeProcess"]

_HOME_OF = {"Broker": "broker", "Faults": "broker", "Moment": "broker", "NodeProcess": "process"}


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
