"""How a verb ends: our errors become one line on standard error and an exit code.

0: success; 1: a failure of the peer, the network or the log on disk; 2: the user's mistake (as with typer and
argparse); 130: Ctrl-C, 143: SIGTERM, if they ended what would have continued.
"""

from __future__ import annotations

import errno
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TextIO

from penstock.errors import LocalError, PenstockError, StoreError

INTERRUPTED = 128 + signal.SIGINT


def exit_code(error: PenstockError) -> int:
    """2 if the user can put it right in the command, else 1."""
    return 2 if isinstance(error, LocalError) and not isinstance(error, StoreError) else 1


@contextmanager
def reporting_errors() -> Iterator[None]:
    """Around a verb: SystemExit for penstock's errors and those of files, Ctrl-C, a reader that left; bugs pass."""
    try:
        yield
        _flush()  # what does not get out at the interpreter's end is lost in silence
    except PenstockError as error:
        sys.stderr.write(f"penstock: {error}\n")
        raise SystemExit(exit_code(error)) from None
    except KeyboardInterrupt:
        raise SystemExit(INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output left (`| head`), which is not an error.
        drop_output()
        raise SystemExit(0) from None
    except OSError as error:  # of files and standard streams; network errors are penstock's own
        drop_output()
        closed = error.errno == errno.EBADF
        sys.stderr.write(f"penstock: {'the standard input or output that this needs is closed' if closed else error}\n")
        raise SystemExit(1) from None


def drop_output() -> None:
    """Python flushes standard output once more at exit: what cannot be written must not fail there again."""
    try:
        _flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _flush() -> None:
    stdout: TextIO | None = sys.stdout  # None where the process was started without one
    if stdout is not None:
        stdout.flush()


class StopRequests:
    """Ctrl-C and SIGTERM as a flag to check between two steps, not an exception in the middle of one.

    Used as a block in the main thread. A second signal has its usual effect: somebody is in a hurry.
    """

    def __init__(self) -> None:
        self._came: int | None = None

    @property
    def exit_code(self) -> int | None:
        """128 plus the signal's number; None while there was none."""
        return None if self._came is None else 128 + self._came

    def __enter__(self) -> StopRequests:
        self._before = {each: signal.signal(each, self._note) for each in (signal.SIGINT, signal.SIGTERM)}
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, number: int, _: FrameType | None) -> None:
        self._came = number
        self._restore()

    def _restore(self) -> None:
        for each, handler in self._before.items():
            signal.signal(each, handler)
