"""The TubeMQ front: a node that TubeMQ clients take for a master and its broker."""

from penstock.protocols.tubemq.front.front import TubeFront
from penstock.protocols.tubemq.front.opening import open_front
from penstock.protocols.tubemq.front.options import TubeFrontOptions

__all__ = ["TubeFront", "TubeFrontOptions", "open_front"]
