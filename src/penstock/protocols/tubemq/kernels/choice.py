"""Which of TubeMQ's kernels runs: chosen as all are, by `penstock.kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from penstock.kernels import kernel_of

if TYPE_CHECKING:
    from penstock.protocols.tubemq.kernels.interface import TubeKernel

__all__ = ["tube_kernel"]

_HOME: Final = __name__.rpartition(".")[0]


def tube_kernel(size: int | None = None) -> TubeKernel:
    """Return the kernel for a piece of work of ``size`` bytes; None means "the chosen one, now"."""
    return cast("TubeKernel", kernel_of(_HOME, size))
