"""Bytes as a connection's framing cuts them."""

from __future__ import annotations

from collections.abc import Iterator

from penstock.interfaces.framing import Frame, Framing


def frames(framing: Framing, data: bytes, most: int) -> Iterator[Frame]:
    """The first ``most`` whole frames of ``data``. Raises what the framing raises."""
    view = memoryview(data)
    for _ in range(most):
        frame = None
        while frame is None:
            need = framing.need() or max(1, len(view))
            if len(view) < need:
                return
            frame, view = framing.feed(view[:need]), view[need:]
        yield frame
