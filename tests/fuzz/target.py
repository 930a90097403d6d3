"""A fuzz target: a module ``*_target.py`` in this folder, found by its name.

It defines ``run(data: bytes)``, which feeds any bytes to one of our decoders and may return what kind of answer it
got, and may define ``seeds() -> Iterable[bytes]``, good inputs to start from. The one rule: any bytes decode or raise
PenstockError.
"""

import importlib
import re
import signal
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from types import FrameType

from penstock.errors import PenstockError
from tests.fuzz.mutate import mutant

FOLDER = Path(__file__).resolve().parent
CRASHERS = FOLDER / "crashers"
LONGEST = 64 * 1024
LARGEST_CORPUS = 4_000
SLOWEST_S = 5.0


class TooSlow(KeyboardInterrupt):
    """One input kept a decoder busy for longer than any may. An event loop lets only this kind of error through."""


@dataclass
class Target:
    """``corpus`` grows by every mutant that is answered in a way not seen before."""

    name: str
    run: Callable[[bytes], str | None]
    corpus: list[bytes]
    executions: int = 0
    answers: set[str] = field(default_factory=set)

    def attempt(self, data: bytes) -> BaseException | None:
        """Feed one input; what came out if the rule was broken."""
        self.executions += 1
        try:
            with _in_time(), warnings.catch_warnings():
                warnings.simplefilter("error")
                answer = self.run(data) or "decoded"
        except PenstockError as error:
            answer = f"{type(error).__name__}: {re.sub(r'0x[0-9a-f]+|[0-9]+', '#', error.message)}"
        except TooSlow as error:
            return error
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            return error
        if answer not in self.answers and len(self.corpus) < LARGEST_CORPUS:
            self.answers.add(answer)
            self.corpus.append(data)
        return None

    def attempt_mutant(self, dice: Random) -> tuple[bytes, BaseException | None]:
        data = mutant(self.corpus, dice, LONGEST)
        return data, self.attempt(data)

    def crashers(self) -> list[Path]:
        """Inputs that broke the rule once."""
        return sorted(CRASHERS.glob(f"{self.name}-*.bin"))


def targets() -> list[Target]:
    """Every target of this folder, in the order of names."""
    found = []
    for file in sorted(FOLDER.glob("*_target.py")):
        module = importlib.import_module(f"tests.fuzz.{file.stem}")
        seeds = list(module.seeds()) if hasattr(module, "seeds") else []
        found.append(Target(file.stem.removesuffix("_target"), module.run, [b"", b"\x00" * 64, *map(bytes, seeds)]))
    return found


@contextmanager
def _in_time() -> Iterator[None]:
    def over(number: int, frame: FrameType | None) -> None:
        raise TooSlow(f"more than {SLOWEST_S} s for one input")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, SLOWEST_S, SLOWEST_S)  # again, if what is interrupted goes on cleaning up
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
