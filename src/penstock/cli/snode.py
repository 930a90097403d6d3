"""``penstock snode``: a service node in this process, until SIGTERM."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from penstock.cli.options import pairs
from penstock.config import snode_config

if TYPE_CHECKING:
    from penstock.config import SnodeConfig
    from penstock.snode import Node

Listen = Annotated[
    list[str] | None,
    typer.Option("--listen", help="scheme://host:port, one a protocol; port 0 lets the system pick."),
]
Advertise = Annotated[
    list[str] | None,
    typer.Option("--advertise", help="scheme://host:port that clients are told, where it is another one."),
]


def snode(
    store: Annotated[str, typer.Option("--store", help="file:DIRECTORY, or memory: (gone with the process).")],
    listen: Listen = None,
    advertise: Advertise = None,
    flush: Annotated[
        str, typer.Option("--flush", help="os (survives kill -9), interval, or always (survives power loss).")
    ] = "os",
    allow_remote: Annotated[
        bool, typer.Option("--allow-remote", help="Permit listeners that other machines can reach.")
    ] = False,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any other node option as name=value; may be repeated.")
    ] = None,
    until_stdin_closes: Annotated[
        bool,
        typer.Option("--until-stdin-closes", help="Also stop when standard input ends: live no longer than a parent."),
    ] = False,
) -> None:
    """Serve topics to clients. Prints one line when ready; drains and stops on SIGTERM."""
    config = snode_config(
        {
            "store": store,
            "listen": listen or ["kafka://127.0.0.1:9092"],
            "advertised": advertise,
            "flush": flush,
            "allow_remote": allow_remote,
            **pairs(setting),
        }
    )
    asyncio.run(_serve(config, until_stdin_closes=until_stdin_closes))


async def _serve(config: SnodeConfig, *, until_stdin_closes: bool) -> None:
    from penstock.snode.run import run

    stop = asyncio.Event()
    if until_stdin_closes:
        asyncio.get_running_loop().add_reader(sys.stdin.fileno(), _drain_stdin, stop)

    def ready(node: Node) -> None:
        sys.stdout.write(f"penstock snode ready: {', '.join(node.listening)} store={config.store}\n")
        sys.stdout.flush()

    await run(config, ready=ready, stop=stop)


def _drain_stdin(stop: asyncio.Event) -> None:
    """Anything read is ignored; the end of the stream means that the parent is gone."""
    if not sys.stdin.buffer.raw.read(4096):  # type: ignore[attr-defined]
        asyncio.get_running_loop().remove_reader(sys.stdin.fileno())
        stop.set()
