"""``./dev power``: the store under loss of power, one seed after the other.

Options: ``--seed S`` (the first, 0), ``--seeds N`` (300), ``--trace`` (what happened also where all held).
"""

from __future__ import annotations

import argparse
import sys
import time
import traceback


def main(words: list[str]) -> int:
    from tests.power.world import Broken, play

    parser = argparse.ArgumentParser(prog="./dev power", description="the store on a disk that loses power")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seeds", type=int, default=300)
    parser.add_argument("--trace", action="store_true")
    options = parser.parse_args(words)
    began = time.perf_counter()
    for seed in range(options.seed, options.seed + options.seeds):
        try:
            world = play(seed)
        except Broken as broken:
            print("\n".join(broken.world.trace))  # type: ignore[attr-defined]
            if broken.__cause__ is not None:
                traceback.print_exception(broken.__cause__)
            print(f"\nbroken: {broken}\n./dev power --seed {seed} --seeds 1")
            return 1
        if options.trace:
            print("\n".join(world.trace))
    took = time.perf_counter() - began
    print(f"{options.seeds:,} seeds held in {took:.1f} s, {options.seeds / took:.1f} a second")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
