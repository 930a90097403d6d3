"""A TubeMQ cluster as an enode: see ``README.md`` beside this file."""

from penstock.protocols.tubemq.enode.enode import TubeEnode as TubeEnode
from penstock.protocols.tubemq.enode.opening import open_enode as open_enode

__all__ = ["TubeEnode", "open_enode"]
