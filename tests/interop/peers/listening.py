"""Where a server can be connected to: nothing that tests start is there for other machines."""

from __future__ import annotations

import psutil

from tools.peers.java_server import JavaServer


def listening(server: JavaServer) -> set[tuple[str, int]]:
    """Addresses and ports, IPv4 and IPv6, of a running server."""
    found = psutil.Process(server.pid).net_connections(kind="inet")
    return {(each.laddr.ip, each.laddr.port) for each in found if each.status == psutil.CONN_LISTEN}


def addresses(server: JavaServer) -> set[str]:
    """The addresses alone."""
    return {address for address, _ in listening(server)}
