"""Write TubeMQ payloads: what a record has beside its value becomes attributes."""

from __future__ import annotations

import itertools

from penstock.kernels.interface import Bytes, Int32s, Int64s
from penstock.protocols.tubemq.kernels.attributes import write_attributes

__all__ = ["encode_payloads"]


def encode_payloads(
    keys: Bytes, key_ends: Int32s, key_valid: Bytes, values: Bytes, value_ends: Int32s, value_valid: Bytes,
    timestamps: Int64s, header_ends: Int32s, names: Bytes, name_ends: Int32s,
    header_values: Bytes, header_value_ends: Int32s, header_valid: Bytes,
    out: Bytes, payload_ends: Int32s, flags: Int32s, filter_headers: Int32s,
) -> None:  # fmt: skip
    """See `penstock.protocols.tubemq.kernels.interface.TubeKernel.encode_payloads`."""
    all_keys, all_values = _parts(keys, key_ends, key_valid), _parts(values, value_ends, value_valid)
    header_names, all_header_values = (
        _parts(names, name_ends, names[:0]),
        _parts(header_values, header_value_ends, header_valid),
    )
    target = out.data
    at, start = 0, int(header_ends[0]) if len(header_ends) else 0
    payload_ends[0] = 0
    for row, time_ms in enumerate(timestamps.tolist()):
        first, last = 0, 0
        if len(header_ends):
            first, last = int(header_ends[row]) - start, int(header_ends[row + 1]) - start
        headers = [(header_names[i] or b"", all_header_values[i]) for i in range(first, last)]
        attributes, chosen = write_attributes(all_keys[row], all_values[row], time_ms, headers)
        flags[row] = 1 if attributes else 0
        filter_headers[row] = -1 if chosen < 0 else first + chosen
        head = len(attributes).to_bytes(4, "big") + attributes if attributes else b""
        payload = head + (all_values[row] or b"")
        target[at : at + len(payload)] = payload
        at += len(payload)
        payload_ends[row + 1] = at


def _parts(data: Bytes, ends: Int32s, valid: Bytes) -> list[bytes | None]:
    source, stops = data.tobytes(), ends.tolist()
    parts = [source[a:b] for a, b in itertools.pairwise(stops)]
    return (
        [part if there else None for part, there in zip(parts, valid.tolist(), strict=True)] if len(valid) else [*parts]
    )
