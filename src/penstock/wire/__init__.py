"""Protocol-neutral reading and writing of bytes: cursors whose every step is checked against what is left."""

from penstock.wire.cursor import Reader, Writer

__all__ = ["Reader", "Writer"]
