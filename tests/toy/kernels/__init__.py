"""The toy's loop over bytes, in both implementations: a checksum of what is pulled."""

from tests.toy.kernels.choice import checksum as checksum

__all__ = ["checksum"]
