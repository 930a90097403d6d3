"""From a node's configuration to several logs as one: which is its home, and which cannot be together."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from penstock.config import SnodeConfig
from penstock.config.places import Places, is_cluster, shown
from penstock.errors import ConfigError
from penstock.protocols import protocol, schemes
from penstock.seams.journal import Journals
from penstock.seams.opening import OpenedEnode, Surroundings
from penstock.seams.protocol import WireProtocol
from penstock.seams.runtime import Runtime
from penstock.snode.enodes.member import Member
from penstock.snode.enodes.opening import open_enode
from penstock.snode.enodes.union import Union

__all__ = ["open_several"]

_log = logging.getLogger("penstock.node")


def open_several(
    config: SnodeConfig,
    runtime: Runtime,
    around: Callable[[Journals | None], Surroundings],
    beside: OpenedEnode | None,
    journals_in: Callable[[OpenedEnode], Journals],
) -> Union:
    """All logs of ``config`` as one, not started. ``beside``: where the node's journals are, if not in one of them.

    Raises ConfigError; StoreError and its kin for the node's own log.
    """
    places = config.places
    own = tuple(begin for scheme in schemes() for begin in protocol(scheme).own_topics)
    _check_rules(places, own)
    at = -1 if beside is not None else _home(places.addresses)
    kept = beside if beside is not None else open_enode(places.addresses[at], around(None))
    home = Member(kept, runtime, owned=beside is not None)
    journals = journals_in(kept)
    members = [
        home if number == at else Member(open_enode(address, around(journals)), runtime)
        for number, address in enumerate(places.addresses)
    ]
    for each in members:
        if not each.enode.abilities.records:
            raise ConfigError(
                f"topics of {each.name} cannot be served beside others: only its own protocol goes there",
                hint="Have a node of its own before it",
            )
    _tell_what_is_lost(config, places)
    return Union(members, home, places, own, runtime)


def _home(addresses: Sequence[str]) -> int:
    """Where groups and their offsets are kept: the node's own log, or the first cluster that keeps such for good."""
    for number, address in enumerate(addresses):
        if not is_cluster(address) or _spoken_at(address).keeps_journals:
            return number
    raise ConfigError(
        f"none of {', '.join(map(shown, addresses))} can keep what the node remembers of groups and offsets",
        hint="Say where: --journals file:DIRECTORY, or --store file:DIRECTORY, where topics can live, too",
    )


def _spoken_at(address: str) -> WireProtocol:
    scheme = address.partition(":")[0]
    if scheme not in schemes():
        raise ConfigError(
            f"{shown(address)} is no cluster that this node knows",
            hint="There are " + ", ".join(each for each in schemes() if protocol(each).enode is not None),
        )
    return protocol(scheme)


def _check_rules(places: Places, own: tuple[str, ...]) -> None:
    for rule in places.rules:
        if rule.pattern.startswith(own):
            raise ConfigError(
                f"{rule.text!r} is about topics that the node makes for groups",
                hint=f"Those whose names begin with {' or '.join(own)} lie where it keeps groups; leave the rule out",
            )


def _tell_what_is_lost(config: SnodeConfig, places: Places) -> None:
    """A front that would hand frames on to a cluster of its own kind does not, where others are beside it."""
    listening = {listen.scheme for listen in config.listen}
    for address in filter(is_cluster, places.addresses):
        spoken = _spoken_at(address)
        if spoken.relays and spoken.scheme in listening:
            _log.warning(
                "what %s's clients ask is not handed on to %s as it came, because topics live elsewhere, too: they are"
                " served as by a node with its own log. Have a node of its own before that cluster for all it can do",
                spoken.title,
                shown(address),
            )
