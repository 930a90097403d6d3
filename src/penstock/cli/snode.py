"""``penstock snode``: a service node in this process, until SIGTERM."""

from __future__ import annotations

import argparse
import asyncio
import errno
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from penstock.cli.arguments import pairs
from penstock.cli.logs import FORMATS, LEVELS, VARIABLE, log_to_stderr
from penstock.cli.output import drop_output, reporting_errors
from penstock.config import snode_config
from penstock.config.fields import normal
from penstock.config.snode import shown, shown_options
from penstock.errors import UsageError
from penstock.net.loops import new_loop
from penstock.protocols import USUAL, configs, default_port

if TYPE_CHECKING:
    from penstock.config import SnodeConfig
    from penstock.snode import Node
    from penstock.snode.processes import ProcessPart

_DEFAULT_LISTENER: Final = f"{USUAL}://127.0.0.1:{default_port(USUAL)}"


def snode(words: Sequence[str]) -> None:
    """Parse the words after ``snode``, and serve. Raises SystemExit, as every verb does."""
    with reporting_errors():
        given = arguments().parse_args(words)
        store, enodes = _kept(given.store, given.enode)
        config = snode_config(
            {
                "store": store,
                "enodes": enodes,
                "topics": given.topics,
                "journals": given.journals,
                "listen": given.listen or [_DEFAULT_LISTENER],
                "advertised": given.advertise,
                "flush": given.flush,
                "metrics": given.metrics,
                "allow_remote": given.allow_remote,
                "repair": given.repair,
                "processes": given.processes,
                **pairs(given.set),
            },
            configs(),
        )
        if given.show_config:
            _show(config, words)
            return
        log_to_stderr(given.log_level, given.log_format, usual_level="info")
        if config.processes > 1:
            from penstock.snode.processes import run_processes

            code = run_processes(config, _work, ready=_print, until_stdin_closes=given.until_stdin_closes)
            raise SystemExit(code)
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(_serve(config, until_stdin_closes=given.until_stdin_closes))


def arguments() -> argparse.ArgumentParser:
    """The parser of the words after ``snode``."""
    parser = argparse.ArgumentParser(
        prog="penstock snode",
        description="Serve topics to clients. Prints one line when ready; drains and stops on SIGTERM.",
        epilog="An argument @FILE stands for the arguments in that file, one a line: secrets are not shown by ps then.",
        fromfile_prefix_chars="@",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--store", help="a log of this node's own: file:DIRECTORY, or memory: (gone with the process)")
    add(
        "--enode",
        action="append",
        metavar="SCHEME://HOST:PORT[,HOST:PORT][?OPTION=VALUE]",
        help="a cluster that keeps everything, so that nothing is kept here: kafka://HOST:9092; rocketmq://HOST:9876, "
        "its name servers; tubemq://HOST:8715, its masters; access_key, secret_key, tls, tls_... are options as in a "
        "client's address; several of them, also with a --store, by --topics",
    )
    add(
        "--topics",
        action="append",
        metavar="PATTERN[,PATTERN]=PLACE",
        help="of several places: which topics live where, 'orders-*=store' or 'a,b-*=kafka://HOST:9092'; PLACE is "
        "store, or an --enode by its scheme or address; the first that fits counts; all others live in --store, "
        "without one in the first --enode; may be repeated",
    )
    add(
        "--journals",
        metavar="file:DIRECTORY",
        help="with a cluster: the node itself keeps groups and offsets there, not in the cluster",
    )
    add(
        "--listen",
        action="append",
        metavar="SCHEME://HOST:PORT",
        help=f"one per protocol; port 0 lets the system pick; by default {_DEFAULT_LISTENER}",
    )
    add(
        "--advertise",
        action="append",
        metavar="SCHEME://HOST:PORT",
        help="the address that clients get, if it differs",
    )
    add(
        "--metrics",
        metavar="http://HOST:PORT",
        default="",
        help="serve /metrics (Prometheus), /healthz and /readyz there: http://127.0.0.1:9400",
    )
    add("--flush", default="os", help="os (survives kill -9), interval, or always (survives power loss)")
    add(
        "--repair",
        action="store_true",
        help="start with a damaged log; what is cut off is kept next to it; the node's own topics are read in full",
    )
    add("--allow-remote", action="store_true", help="permit listeners that other machines can reach")
    add("--processes", metavar="N", help="share the listeners, to use more cores; only with an --enode")
    add(
        "--log-level",
        choices=LEVELS,
        type=str.lower,
        help=f"which lines are logged, to standard error; by default those of {VARIABLE}, else info",
    )
    add(
        "--log-format",
        choices=FORMATS,
        help=f"lines with time, level and logger, or an object a line; by default that of {VARIABLE}, else text",
    )
    add(
        "--show-config",
        action="store_true",
        help="print every option of the node with its value and where that came from, and end; secrets are not shown",
    )
    add("--set", action="append", metavar="NAME=VALUE", help="any other node option; may be repeated")
    add(
        "--until-stdin-closes",
        action="store_true",
        help="also stop when standard input ends, so as not to outlive a parent",
    )
    return parser


_NAMES: Final = {"enode": "enodes", "advertise": "advertised"}
"""Words of the command line whose option has another name."""


def _show(config: SnodeConfig, words: Sequence[str]) -> None:
    """Print every option: name, value, where the value came from."""
    given = dict(_given(words))
    given.setdefault("store", given.get("enodes", "default"))  # without a store, topics live in the first enode
    rows = [(name, value, given.get(name, "default")) for name, value in shown_options(config, configs())]
    wide = max(len(name) for name, _, _ in rows), max(min(len(value), 40) for _, value, _ in rows)
    for name, value, place in rows:
        sys.stdout.write(f"{name:{wide[0]}}  {value:{wide[1]}}  {place}\n")


def _given(words: Sequence[str], place: str = "command line") -> Iterator[tuple[str, str]]:
    """(option, source) of every option that was given."""
    left = list(words)
    while left:
        word = left.pop(0)
        if word.startswith("@"):
            yield from _given(Path(word[1:]).read_text(encoding="utf-8").splitlines(), f"file {word[1:]}")
        elif word.startswith("--"):
            name, _, value = word.removeprefix("--").partition("=")
            if name == "set":
                name = (value or left.pop(0)).partition("=")[0]
            name = normal(name)
            yield _NAMES.get(name, name), place


def _kept(store: str | None, enodes: list[str] | None) -> tuple[str, list[str]]:
    """The default place of topics, and the other places. Raises UsageError if there is none."""
    if store is not None:
        return store, enodes or []
    if not enodes:
        raise UsageError(
            "no place for topics is given",
            hint="--store file:DIRECTORY keeps them here, --enode kafka://HOST:9092 in a cluster",
        )
    return enodes[0], enodes[1:]


async def _serve(config: SnodeConfig, *, until_stdin_closes: bool) -> None:
    from penstock.snode.node import run

    stop = asyncio.Event()
    if until_stdin_closes:
        _watch_stdin(stop)

    await run(config, ready=lambda node: _print(_ready(node)), stop=stop)


def _work(config: SnodeConfig, place: ProcessPart, say: Callable[[str], None]) -> int:
    """Run one process of several; returns its exit code."""
    from penstock.snode.node import run

    try:
        with reporting_errors(), asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(run(config, ready=lambda node: say(_ready(node)), place=place))
    except SystemExit as ending:
        return ending.code if isinstance(ending.code, int) else 1
    return 0


def _ready(node: Node) -> str:
    config = node.config
    also = f" enodes={','.join(map(shown, config.enodes))}" if config.enodes else ""
    metrics = "" if node.metrics_url is None else f" metrics={node.metrics_url}"
    return f"penstock snode ready: {', '.join(node.listening)} store={shown(config.store)}{also}{metrics}"


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    try:
        sys.stdout.flush()
    except OSError as error:
        if error.errno != errno.EBADF:
            raise
        drop_output()  # a node with a closed standard output continues to serve


def _watch_stdin(stop: asyncio.Event) -> None:
    """Set ``stop`` at the end of standard input; its content is ignored. Raises UsageError."""
    loop = asyncio.get_running_loop()

    def readable() -> None:
        if not os.read(number, 4096):
            loop.remove_reader(number)
            stop.set()

    try:
        number = sys.stdin.fileno()
        loop.add_reader(number, readable)
    except (OSError, ValueError, AttributeError) as error:
        # The event loop cannot wait for a plain file or /dev/null, and there may be no standard input at all.
        raise UsageError("--until-stdin-closes needs a pipe or a terminal on standard input") from error
