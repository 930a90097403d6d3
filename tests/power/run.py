"""``./dev power``: the store under loss of power, one seed after the other.

Options: ``--seed S`` (the first, 0), ``--seeds N`` (300), ``--trace`` (what happened also where all held).
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback

from tests.power.world import Broken, World


def main(words: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="./dev power", description="the store on a disk that loses power")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args(words)
    began = time.perf_counter()
    failed = simulate(options.seed, options.seeds, trace=options.trace)
    if failed is not None:
        print(failed)
        return 1
    took = time.perf_counter() - began
    print(f"{options.seeds:,} seeds held in {took:.1f} s, {options.seeds / took:.1f} a second")
    return 0


def simulate(first: int, count: int, *, trace: bool = False) -> str | None:
    """Play seeds; what to print of the first that breaks a rule, with the command that plays it again."""
    for seed in range(first, first + count):
        world = World(seed)
        try:
            world.play()
        except Broken as broken:
            cause = "".join(traceback.format_exception(broken.__cause__)) if broken.__cause__ else ""
            steps = "\n".join(world.trace)
            return f"{steps}\n{cause}\nbroken: {broken}\n./dev power --seed {seed} --seeds 1"
        if trace:
            print("\n".join(world.trace))
    return None


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
