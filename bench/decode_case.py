"""One round of the readers of `bench.decode` in its own process: ``python -m bench.decode_case JOB``.

Each reader runs alone for some time. Its first call does not count, since it also pays for the state of memory and
caches that the previous reader left.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping

from bench import decode
from penstock import kernels

__all__ = ["main"]


def main(job: Mapping[str, object]) -> None:
    """Print records per second of every reader over ``seconds`` each, in reverse order if the job says so."""
    kernels.load()
    value_bytes, codec = decode.CASES[str(job["variant"])]
    data = decode.run_of_batches(value_bytes, codec)
    readers = decode.readers_of(codec)
    decode.measure(data, readers, 0.0)  # compares their results
    order = list(readers)[:: -1 if job["backwards"] else 1]
    rates = {case: _rate(readers[case], data, float(str(job["seconds"]))) for case in order}
    print(json.dumps({case: rates[case] for case in readers}), flush=True)


def _rate(reader: decode.Reader, data: bytes, seconds: float) -> float:
    reader(data)
    records = 0
    begun = time.perf_counter()
    while (spent := time.perf_counter() - begun) < seconds or not records:
        records += reader(data).num_rows
    return records / spent


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
