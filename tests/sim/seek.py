"""Looks for every planted bug: ``python -m tests.sim.seek FIRST WITHIN`` says in JSON, line by line, what was found.

What must not live here: the bugs (`planted`).
"""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Iterator
from unittest.mock import patch

from tests.sim.planted import PLANTS
from tests.sim.play import Outcome, play
from tests.sim.run import SCHEMES
from tests.sim.world import ready_to_simulate


def main(first: int, within: int) -> None:
    ready_to_simulate(*SCHEMES)
    gc.collect()
    gc.freeze()
    for name, plant in PLANTS.items():
        for kind in plant.kinds:
            began = time.process_time()
            with patch.object(*plant.make()):
                found = next(_broken_ones(kind, range(first, first + within)), None)
            said = {"name": name, "kind": kind, "cpu_s": round(time.process_time() - began, 2)}
            if found is not None:
                seed = found.plan.seed
                said |= {"seed": seed, "broken": found.broken, "without": play(seed, kind).broken}
            print(json.dumps(said), flush=True)


def _broken_ones(kind: str, seeds: range) -> Iterator[Outcome]:
    return (outcome for outcome in (play(seed, kind) for seed in seeds) if outcome.broken)


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
