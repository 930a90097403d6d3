"""``./dev sim``: schedules of groups, one seed after the other, until time is up or a rule is broken.

Options: ``--seconds N`` (30), ``--seed S`` (the first; drawn and printed), ``--schedules N`` instead of a time,
``--protocol NAME`` (all in turn), ``--trace`` (what happened also where all held).
"""

from __future__ import annotations

import argparse
import gc
import sys
import time
from collections import Counter
from random import SystemRandom

SCHEMES = ("kafka", "kafka-newer", "kafka-mixed", "rocketmq", "tubemq")


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev sim", description="groups under faults, in simulated time")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--schedules", type=int, default=None)
    parser.add_argument("--protocol", choices=SCHEMES, default=None)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args(words)
    return simulate(options)


def simulate(options: argparse.Namespace) -> int:
    from tests.sim.play import play, shrunk
    from tests.sim.world import ready_to_simulate

    schemes = (options.protocol,) if options.protocol else SCHEMES
    ready_to_simulate(*schemes)
    gc.collect()
    gc.freeze()  # what was imported need not be looked at again after each schedule
    seed = options.seed if options.seed is not None else SystemRandom().randrange(1_000_000_000)
    print(f"from seed {seed}", flush=True)
    counts: Counter[str] = Counter()
    began, played = time.perf_counter(), 0
    while played < options.schedules if options.schedules else time.perf_counter() - began < options.seconds:
        for scheme in schemes:
            outcome = play(seed, scheme)
            played += 1
            counts += outcome.counts
            if options.trace:
                print(outcome)
            if outcome.broken:
                print(outcome)
                print("\nwith fewer steps:\n", shrunk(outcome, scheme), sep="")
                print(f"\n./dev sim --protocol {scheme} --seed {seed} --schedules 1")
                return 1
        seed += 1
    took = time.perf_counter() - began
    for what, count in sorted(counts.items()):
        print(f"{count:>10,}  {what}")
    print(f"{played:,} schedules held in {took:.1f} s, {played / took:.1f} a second; the next seed is {seed}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
