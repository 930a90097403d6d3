"""One RocketMQ case of ours in its own process: ``python -m bench.rocketmq_case JOB`` prints its result as JSON."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from bench.clients.rocketmq import CASES, RocketJob

__all__ = ["main"]


def main(job: Mapping[str, Any]) -> None:
    """Run the case and print its result."""
    rest = {name: value for name, value in job.items() if name != "case"}
    print(json.dumps(CASES[job["case"]](RocketJob(**rest))), flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
    os._exit(0)
