"""TubeMQ's loops over bytes, in two implementations, and what they have to do."""

from penstock.protocols.tubemq.kernels.interface import tube_kernel as tube_kernel

__all__ = ["tube_kernel"]
