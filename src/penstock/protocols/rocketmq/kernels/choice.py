"""Which of RocketMQ's kernels runs: chosen as all are, by `penstock.kernels`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from penstock.kernels import kernel_of

if TYPE_CHECKING:
    from penstock.protocols.rocketmq.kernels.interface import RocketKernel

__all__ = ["rocket_kernel"]

_HOME: Final = __name__.rpartition(".")[0]


def rocket_kernel(size: int | None = None) -> RocketKernel:
    """Return the kernel for a piece of work of ``size`` bytes; None means "the chosen one, now"."""
    return cast("RocketKernel", kernel_of(_HOME, size))
