"""Runs a node as several processes that share its addresses, to use more than one core; for nodes without own data.

The parent process only watches: it opens the sockets, forks the processes, and replaces one that has died. Each child
is a node of its own (`run`). It listens at the shared address and at one of its own, where the other children ask it
about its clients. The parent must not start a thread or an event loop, because they do not survive a fork.
"""

from __future__ import annotations

import logging
import os
import selectors
import signal
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from penstock import _clock
from penstock.config import ListenAddress, SnodeConfig
from penstock.errors import ConfigError
from penstock.model import Endpoint
from penstock.net.network import SharedListenSocket, listen_shared

__all__ = ["ProcessPart", "run_processes"]

_log = logging.getLogger("penstock.node")

_KEPT_HERE: Final = frozenset({"memory", "file"})
_AGAIN_S: Final = 0.2
_AGAIN_MOST_S: Final = 5.0
_STEADY_S: Final = 10.0
"""A process that ran for this long is replaced after `_AGAIN_S`; for one that died sooner, the pause doubles."""
_BEYOND_DRAIN_S: Final = 10.0


class ProcessPart(Struct, frozen=True):
    """One child process's part: its sockets by scheme, its own address and those of the other children.

    ``lives`` is a file descriptor that becomes readable when the parent is gone. ``again``: the child replaces one, so
    the others are already running.
    """

    lives: int
    doors: Mapping[str, SharedListenSocket]
    reached: Mapping[str, Endpoint]
    siblings: Mapping[str, Sequence[Endpoint]]
    again: bool = False


Work = Callable[[SnodeConfig, ProcessPart, Callable[[str], None]], int]
"""Serves until a signal comes and returns the exit code. It calls the third argument once, with the ready line."""


def run_processes(
    config: SnodeConfig, work: Work, *, ready: Callable[[str], None], until_stdin_closes: bool = False
) -> int:
    """Run ``config.processes`` processes until SIGTERM or SIGINT; ``ready`` is called once, when all of them listen.

    Returns an exit code: that of the child if one cannot start. Raises ConfigError, OSError.
    """
    if config.store.partition(":")[0] in _KEPT_HERE:
        raise ConfigError(
            f"{config.processes} processes cannot keep {config.store} together: a log has one owner",
            hint="Leave --processes out, or keep topics in a cluster: --enode",
        )
    if config.enodes:
        raise ConfigError(
            f"{config.processes} processes cannot serve topics of several places together",
            hint="Leave --processes out, or have a node before each cluster",
        )
    if config.journals:
        raise ConfigError(
            f"{config.processes} processes cannot keep journals in {config.journals} together",
            hint="Leave --processes or --journals out",
        )
    lives, life = os.pipe()
    listen, places = _places(config, lives)
    share = replace(config, listen=listen, memory_bytes=max(config.memory_bytes // config.processes, 1 << 20))
    return _Watch(share, places, work, ready, life).run(until_stdin_closes=until_stdin_closes)


def _places(config: SnodeConfig, lives: int) -> tuple[tuple[ListenAddress, ...], list[ProcessPart]]:
    """The listeners with their real ports, and each process's part of them."""
    made: dict[str, list[SharedListenSocket]] = {}
    first = config.process_port
    for each in config.listen:
        try:
            made[each.scheme] = listen_shared(each.endpoint, config.processes, first, config.side_ports(each.scheme))
        except OSError as error:
            raise ConfigError(f"cannot listen on {each}: {error.strerror or error}") from error
        first += config.processes if first else 0
    listen = tuple(ListenAddress(each.scheme, made[each.scheme][0].address) for each in config.listen)
    hosts = {each.scheme: config.advertised.get(each.scheme, each.endpoint).host for each in listen}
    reached = {
        scheme: [Endpoint(hosts[scheme], door.own_address.port) for door in found] for scheme, found in made.items()
    }
    return listen, [
        ProcessPart(
            lives,
            {scheme: found[number] for scheme, found in made.items()},
            {scheme: found[number] for scheme, found in reached.items()},
            {scheme: [*found[:number], *found[number + 1 :]] for scheme, found in reached.items()},
        )
        for number in range(config.processes)
    ]


def _own_page(config: SnodeConfig, number: int) -> SnodeConfig:
    """Each process serves its own metrics: the first at the configured port, the others at the ports after it."""
    at = config.ops
    if at is None or not at.endpoint.port:
        return config
    own = Endpoint(at.endpoint.host, at.endpoint.port + number)
    return replace(config, metrics=str(ListenAddress(at.scheme, own)))


class _Running(Struct):
    """One process. ``pid`` is 0 while it does not run; it is then started at ``due``."""

    place: ProcessPart
    pid: int = 0
    since: float = 0.0
    due: float = 0.0
    pause_s: float = _AGAIN_S
    ready: bool = False


class _Watch:
    def __init__(
        self, config: SnodeConfig, places: Sequence[ProcessPart], work: Work, ready: Callable[[str], None], life: int
    ) -> None:
        self._config = config
        self._work = work
        self._ready = ready
        self._running = [_Running(place) for place in places]
        self._said = False
        self._line = ""
        self._stopping = False
        self._code = 0
        self._selector = selectors.DefaultSelector()
        self._life = life  # open while this process lives
        self._signals, self._signalled = os.pipe()
        self._words, self._word = os.pipe()

    def run(self, *, until_stdin_closes: bool) -> int:
        """Watch until all processes have ended; returns the exit code."""
        os.set_blocking(self._signalled, False)
        os.set_blocking(self._signals, False)
        os.set_blocking(self._words, False)
        signal.set_wakeup_fd(self._signalled, warn_on_full_buffer=False)
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
            signal.signal(number, self._note)
        self._selector.register(self._signals, selectors.EVENT_READ, self._drain_signals)
        self._selector.register(self._words, selectors.EVENT_READ, self._hear)
        if until_stdin_closes:
            self._selector.register(sys.stdin.fileno(), selectors.EVENT_READ, self._look_at_input)
        until = 0.0
        while not (self._stopping and not any(each.pid for each in self._running)):
            if not self._stopping:
                self._start_due()
            elif not until:
                until = _clock.monotonic() + self._config.drain_ms / 1_000 + _BEYOND_DRAIN_S
                self._tell(signal.SIGTERM)
            elif _clock.monotonic() > until:
                self._tell(signal.SIGKILL)
            for key, _ in self._selector.select(self._patience()):
                key.data()
            self._bury()
        return self._code

    # Events.

    def _note(self, number: int, frame: object) -> None:
        del frame
        if number != signal.SIGCHLD:
            self._stopping = True

    def _drain_signals(self) -> None:
        with suppress(BlockingIOError):
            os.read(self._signals, 4_096)

    def _look_at_input(self) -> None:
        if not os.read(sys.stdin.fileno(), 4_096):
            self._selector.unregister(sys.stdin.fileno())
            self._stopping = True

    def _hear(self) -> None:
        """Read the ready lines of processes: "number text"."""
        for line in os.read(self._words, 65_536).decode().splitlines():
            number, _, text = line.partition(" ")
            self._running[int(number)].ready = True
            self._line = text if number == "0" else self._line
            if not self._said and all(each.ready for each in self._running):
                self._said = True
                self._ready(f"{self._line} processes={len(self._running)}")

    def _start_due(self) -> None:
        for number, each in enumerate(self._running):
            if not each.pid and each.due <= _clock.monotonic():
                each.since = _clock.monotonic()
                each.pid = self._forked(number, each.place)

    def _bury(self) -> None:
        for number, each in enumerate(self._running):
            if each.pid:
                pid, status = os.waitpid(each.pid, os.WNOHANG)
                if pid:
                    each.pid = 0
                    self._ended(number, each, os.waitstatus_to_exitcode(status))

    def _ended(self, number: int, each: _Running, code: int) -> None:
        if self._stopping or not each.ready:  # a child that could not start has already logged why
            self._code = self._code or (1 if code < 0 else code)
            self._stopping = True
            return
        now = _clock.monotonic()
        each.pause_s = _AGAIN_S if now - each.since > _STEADY_S else min(2 * each.pause_s, _AGAIN_MOST_S)
        each.due = now + each.pause_s
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
        _log.warning("process %d of %d %s, another one takes its place", number + 1, len(self._running), how)

    def _patience(self) -> float | None:
        if self._stopping:
            return 0.5
        due = [each.due for each in self._running if not each.pid]
        return max(min(due) - _clock.monotonic(), 0.0) if due else None

    def _tell(self, number: signal.Signals) -> None:
        for each in self._running:
            if each.pid:
                with suppress(ProcessLookupError):
                    os.kill(each.pid, number)

    def _forked(self, number: int, place: ProcessPart) -> int:
        sys.stdout.flush()
        sys.stderr.flush()
        pid = os.fork()
        if not pid:
            os._exit(self._serve(number, place))
        return pid

    def _serve(self, number: int, place: ProcessPart) -> int:
        """In the new process: its exit code."""
        try:
            signal.set_wakeup_fd(-1)
            for each in (signal.SIGTERM, signal.SIGINT, signal.SIGCHLD):
                signal.signal(each, signal.SIG_DFL)
            self._selector.close()
            for mine in (self._signals, self._signalled, self._words, self._life):
                os.close(mine)
            for running in self._running:
                if running.place is not place:
                    for door in running.place.doors.values():
                        door.close()
            place = replace(place, again=self._said)
            return self._work(_own_page(self._config, number), place, lambda text: self._say(number, text))
        except BaseException:
            traceback.print_exc()
            return 1
        finally:
            sys.stdout.flush()
            sys.stderr.flush()

    def _say(self, number: int, text: str) -> None:
        os.write(self._word, f"{number} {text}\n".encode())
