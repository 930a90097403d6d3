"""Protocol-neutral reading and writing of bytes: cursors whose every step is checked against what is left."""

from penstock.wire.cursor import MOST_ELEMENTS, Reader, TooManyElements, Writer, java_text

__all__ = ["MOST_ELEMENTS", "Reader", "TooManyElements", "Writer", "java_text"]
