"""``./dev fuzz --seconds N``: time is shared by all targets in turn; the first broken rule is saved and ends the run.

Options: ``--seconds N`` (30), ``--target NAME`` (all), ``--seed N`` (printed; repeats a run), ``--replay FILE…``.
A saved input is an addition to tests/fuzz/crashers, which tests replay for ever after: commit it with the mend.
"""

import argparse
import hashlib
import resource
import sys
import time
import traceback
from random import Random, SystemRandom

from tests.fuzz.target import CRASHERS, Target, targets

SLICE_S = 0.5
MEMORY = 6 << 30  # bytes of address space: a length that lies must not get what it asks for


def save(target: Target, data: bytes, error: BaseException) -> None:
    CRASHERS.mkdir(exist_ok=True)
    file = CRASHERS / f"{target.name}-{hashlib.sha256(data).hexdigest()[:12]}.bin"
    file.write_bytes(data)
    traceback.print_exception(error)
    print(f"\n{target.name}: {len(data)} bytes broke the rule with {type(error).__name__}; saved to {file}")


def fuzz(chosen: list[Target], seconds: float, dice: Random) -> bool:
    """True if the rule held until time was up."""
    end = time.monotonic() + seconds
    for target in chosen:
        for data in [file.read_bytes() for file in target.crashers()] + list(target.corpus):
            if error := target.attempt(data):
                save(target, data, error)
                return False
    while time.monotonic() < end:
        for target in chosen:
            slice_end = min(end, time.monotonic() + SLICE_S)
            while time.monotonic() < slice_end:
                data, error = target.attempt_mutant(dice)
                if error:
                    save(target, data, error)
                    return False
    return True


def report(chosen: list[Target]) -> None:
    width = max(len(target.name) for target in chosen)
    for target in chosen:
        print(f"{target.name:{width}}  {target.executions:>9,} executions  {len(target.answers):>5,} kinds of answer")


def main() -> int:
    parser = argparse.ArgumentParser(prog="./dev fuzz", description="any bytes decode or raise PenstockError")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--target", action="append", help="only this one; may be repeated")
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(2**32))
    parser.add_argument("--replay", nargs="+", type=argparse.FileType("rb"), default=[])
    options = parser.parse_args()
    found = targets()
    chosen = [target for target in found if not options.target or target.name in options.target]
    if not chosen:
        parser.error(f"no such target; there are: {', '.join(target.name for target in found) or 'none'}")
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if options.replay:
        broken = [error for file in options.replay for target in chosen if (error := target.attempt(file.read()))]
        for error in broken:
            traceback.print_exception(error)
        return 1 if broken else 0
    print(f"{len(chosen)} targets, {options.seconds:g} s, --seed {options.seed}", flush=True)
    held = fuzz(chosen, options.seconds, Random(options.seed))
    report(chosen)
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
