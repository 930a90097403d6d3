"""One fresh process: ``python -m bench.fresh_case JOB`` prints its result as JSON. Run by `bench.scenarios.fresh`."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

__all__ = ["idle", "read"]


def read(job: Mapping[str, Any]) -> Mapping[str, object]:
    """Seconds since the start of the process (``begun``, by the monotonic clock) to the first and the last record."""
    from bench.clients import fresh

    first, ended = fresh.READERS[job["case"]](job["bootstrap"], job["topic"], job["count"])
    return {
        "first_s": first - job["begun"],
        "all_s": ended - job["begun"],
        "cpu_s": time.process_time(),
        "peak_mb": _peak_mb(),
    }


def idle(job: Mapping[str, Any]) -> Mapping[str, object]:
    """CPU of an idle consumer, in percent of a core."""
    from bench.clients import fresh

    share = fresh.IDLE[job["case"]](job["bootstrap"], job["topic"], job["seconds"])
    return {"share": share, "peak_mb": _peak_mb()}


def _peak_mb() -> float:
    """Peak memory of this program; ``ru_maxrss`` would include its parent's memory at the fork."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    (peak,) = (line.split()[1] for line in lines if line.startswith("VmHWM:"))
    return int(peak) / 1024


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    print(json.dumps((idle if "seconds" in given else read)(given)), flush=True)
    os._exit(0)
