"""One raw case in its own process: ``python -m bench.rocketmq_raw_case JOB`` prints its result as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from bench.clients.rocketmq_raw import CASES, RawJob

__all__ = ["main"]


def main(job: Mapping[str, Any]) -> None:
    """Run the case and print its result."""
    rest = {name: value for name, value in job.items() if name != "case"}
    print(json.dumps(CASES[job["case"]](RawJob(**rest))), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
