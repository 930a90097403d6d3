"""Note where the names and values of TubeMQ's headers are, and copy texts together, decoded."""

from __future__ import annotations

from penstock.kernels.interface import Bytes, Int32s
from penstock.protocols.tubemq.kernels.attributes import decoded, read_attributes

__all__ = ["gather_texts", "walk_attributes"]


def walk_attributes(
    data: Bytes, attributes_at: Int32s, attributes_to: Int32s, header_ends: Int32s, first: int, last: int,
    name_at: Int32s, name_ends: Int32s, name_texts: Bytes, value_at: Int32s, value_ends: Int32s, value_texts: Bytes,
) -> None:  # fmt: skip
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.walk_attributes`."""
    source = data.tobytes()
    for row in range(first, last):
        if header_ends[row + 1] == header_ends[row]:
            continue
        said = read_attributes(source, int(attributes_at[row]), int(attributes_to[row]))
        for at, header in enumerate(said.headers, int(header_ends[row])):
            name_at[at], name_ends[at + 1], name_texts[at] = header.name_at, name_ends[at] + header.name_size, header[2]
            value_at[at], value_texts[at] = header.value_at, header.value_text
            value_ends[at + 1] = value_ends[at] + header.value_size


def gather_texts(data: Bytes, at: Int32s, ends: Int32s, texts: Bytes, first: int, last: int, out: Bytes) -> None:
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.gather_texts`."""
    source, target = data.tobytes(), out.data
    for row in range(first, last):
        to, stop = int(ends[row]), int(ends[row + 1])
        if stop > to:
            target[to:stop] = decoded(source, int(at[row]), stop - to, int(texts[row]))
