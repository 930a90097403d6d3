"""What orchestrators and operators ask a node over HTTP: whether it lives, whether it is ready, and its metrics."""

from penstock.snode.ops.front import OpsFront
from penstock.snode.ops.watched import Watched

__all__ = ["OpsFront", "Watched"]
