"""`open_enode`: where a node's topics are kept, by URL.

``memory:`` and ``file:DIRECTORY`` are the embedded log; any other scheme belongs to a protocol, whose registered
attribute says how a cluster that speaks it is opened (``enode``). What must not live here: any of these enodes.
"""

from __future__ import annotations

from penstock.errors import ConfigError
from penstock.protocols import protocol, schemes
from penstock.seams.opening import OpenedEnode, Surroundings
from penstock.snode.enodes.local import open_local

__all__ = ["open_enode"]


def open_enode(url: str, around: Surroundings) -> OpenedEnode:
    """The enode at a URL, not started yet. Raises ConfigError; StoreError and its kin for the embedded log."""
    scheme = url.partition(":")[0]
    if "://" in url and scheme in schemes():
        opened = protocol(scheme).enode
        if opened is None:
            raise ConfigError(
                f"a node cannot keep its topics in a {scheme} cluster", hint="Use memory: or file:DIRECTORY"
            )
        return opened(url, around)
    return open_local(url, around)
