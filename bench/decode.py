"""Record batches to Arrow columns, without a network: ours against the readers of aiokafka (Cython) and kafka-python.

``python bench/decode.py [--seconds S] [--json FILE]`` decodes the same bytes with each in turn, with checksums, and
prints records per second and our ratios. Each reader builds Arrow arrays of key, value, offset and timestamp in its
fastest way; all results are compared with each other before anything is measured.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).resolve().parents[1] / folder) for folder in (".", "src")]

import numpy as np
import pyarrow as pa
from aiokafka.record._crecords import MemoryRecords as AioRecords

from penstock import kernels
from penstock.model import Codec
from penstock.records import decode_v2, encode_v2
from penstock.records.arrow import TYPES

with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # kafka-python uses a deprecated way to read its schemas
    from kafka.record import MemoryRecords as PythonRecords

Reader = Callable[[bytes], pa.RecordBatch]

COLUMNS = ("key", "value", "offset", "timestamp")
BATCH_BYTES = 16_384
RUN_BYTES = 4 << 20
TURN_S = 0.05
CASES = {
    "100 B": (100, Codec.NONE),
    "100 B lz4": (100, Codec.LZ4),
    "100 B zstd": (100, Codec.ZSTD),
    "1 KB": (1000, Codec.NONE),
}


def run_of_batches(value_bytes: int, codec: Codec) -> bytes:
    """4 MB of batches of 16 KB (Java's default) with keys of 10 bytes and JSON values of about ``value_bytes``."""
    count = BATCH_BYTES // (value_bytes + 20)
    out = bytearray()
    offset = 0
    while offset * (value_bytes + 20) < RUN_BYTES:
        numbers = range(offset, offset + count)
        values = [
            b'{"id":%d,"user":%d,"city":"%s","amount":%d.%02d}'
            % (n, n * 7919 % 100_003, (b"Paris", b"Rome", b"Oslo")[n % 3], n * 31 % 9_973, n % 100)
            for n in numbers
        ]
        filler = b"abcdefghijklmnopqrstuvwxyz0123456789" * 40
        columns = {
            "key": pa.array([b"k%09d" % n for n in numbers], pa.binary()),
            "value": pa.array([value + filler[: value_bytes - len(value)] for value in values], pa.binary()),
            "timestamp": pa.array([1_700_000_000_000 + n // 50 for n in numbers], pa.int64()),
        }
        batch = pa.RecordBatch.from_arrays(list(columns.values()), names=list(columns))
        out += encode_v2(batch, codec=codec, base_offset=offset)
        offset += count
    return bytes(out)


def penstock(data: bytes) -> pa.RecordBatch:
    return decode_v2(data, columns=COLUMNS).batch


def penstock_all(data: bytes) -> pa.RecordBatch:
    return decode_v2(data).batch


def penstock_value(data: bytes) -> pa.RecordBatch:
    return decode_v2(data, columns=["value"]).batch


def aiokafka(data: bytes) -> pa.RecordBatch:
    return _record_by_record(AioRecords(data))


def kafka_python(data: bytes) -> pa.RecordBatch:
    return _record_by_record(PythonRecords(data))


def _record_by_record(records: AioRecords | PythonRecords) -> pa.RecordBatch:
    keys: list[bytes | None] = []
    values: list[bytes | None] = []
    offsets: list[int] = []
    timestamps: list[int] = []
    while records.has_next():
        batch = records.next_batch()
        if not batch.validate_crc():
            raise ValueError("checksum")
        for record in batch:
            keys.append(record.key)
            values.append(record.value)
            offsets.append(record.offset)
            timestamps.append(record.timestamp)
    arrays = [
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        pa.array(offsets, pa.int64()),
        pa.array(np.array(timestamps, np.int64) * 1000).view(TYPES["timestamp"]),
    ]
    return pa.RecordBatch.from_arrays(arrays, names=COLUMNS)


READERS: Mapping[str, Reader] = {
    "penstock": penstock,
    "penstock, all columns": penstock_all,
    "penstock, value only": penstock_value,
    "aiokafka": aiokafka,
    "kafka-python": kafka_python,
}
RIVALS = ("aiokafka", "kafka-python")
NOT_READ_BY_KAFKA_PYTHON = (Codec.SNAPPY, Codec.LZ4, Codec.ZSTD)  # it needs an additional library for each of them


def readers_of(codec: Codec) -> Mapping[str, Reader]:
    if codec not in NOT_READ_BY_KAFKA_PYTHON:
        return READERS
    return {name: reader for name, reader in READERS.items() if name != "kafka-python"}


def measure(data: bytes, readers: Mapping[str, Reader], seconds: float) -> dict[str, float]:
    """Median records per second of each reader. They run in turns of 50 ms, so that each has the same noise."""
    expected = penstock(data)
    for name, reader in readers.items():
        found = reader(data)
        common = [column for column in COLUMNS if column in found.schema.names]
        assert found.select(common).equals(expected.select(common)), name
    rates: dict[str, list[float]] = {name: [] for name in readers}
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(rates["penstock"]) < 3:
        for name, reader in readers.items():
            rates[name].append(expected.num_rows * _turn(reader, data))
    return {name: statistics.median(found) for name, found in rates.items()}


def _turn(reader: Reader, data: bytes) -> float:
    """Runs per second over one turn."""
    runs = 0
    begin = time.perf_counter()
    while (spent := time.perf_counter() - begin) < TURN_S or not runs:
        reader(data)
        runs += 1
    return runs / spent


def main() -> None:
    parser = argparse.ArgumentParser(description="record batches to Arrow columns, ours against other readers")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each case")
    parser.add_argument("--json", type=Path, help="write the medians and ratios there")
    options = parser.parse_args()
    kernels.load()
    results: dict[str, dict[str, float]] = {}
    print(f"kernel {kernels.name()}; M records/s, medians; batches of 16 KB; checksums on\n")
    print(f"{'':14}" + "".join(f"{name:>24}" for name in READERS) + "".join(f"{'÷ ' + name:>16}" for name in RIVALS))
    for case, (value_bytes, codec) in CASES.items():
        found = measure(run_of_batches(value_bytes, codec), readers_of(codec), options.seconds)
        found |= {f"÷ {name}": found["penstock"] / found[name] for name in RIVALS if name in found}
        results[case] = found
        cells = [f"{found[name] / 1e6:24.2f}" if name in found else f"{'-':>24}" for name in READERS]
        cells += [f"{found[f'÷ {name}']:16.1f}" if name in found else f"{'-':>16}" for name in RIVALS]
        print(f"{case:14}" + "".join(cells))
    if options.json:
        options.json.write_text(json.dumps({"kernel": kernels.name(), "records_per_s": results}, indent=1) + "\n")


if __name__ == "__main__":
    main()
