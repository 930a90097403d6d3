"""In whose name requests go on to brokers and name servers: signed anew, because what the node writes is not what came.

A client whose account the node knows, and whose signature it has found true (``front/admission``), keeps its name:
brokers give it the rights that it has. Everything else is the node's own. Without any account, what clients signed goes
on as it came, which does for what is not changed on the way; pulls are. Source: Apache RocketMQ 4.9,
``AclClientRPCHook``.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import field
from typing import Final

from penstock._dataclasses import dataclass
from penstock.protocols.rocketmq.command import Framed, framed
from penstock.protocols.rocketmq.rpc import UNSIGNED_KEY, UNSIGNED_KEY_VERSION
from penstock.protocols.rocketmq.signing import ACCESS_KEY, SECURITY_TOKEN, SIGNATURE, Account, signed
from penstock.seams.channel import Outgoing

__all__ = ["Credentials"]

_QUERY_MESSAGE: Final = 12
_OF_SIGNATURES: Final = frozenset({ACCESS_KEY, SECURITY_TOKEN, SIGNATURE})


@dataclass(frozen=True, slots=True)
class Credentials:
    """``own`` is the node's account, ``clients`` are those of clients, by access key, that keep their names.

    ``peers`` is one that other Snodes know, which have the same clients, and believe whoever signs as one of them.
    """

    own: Account | None = None
    clients: Mapping[str, Account] = field(default_factory=dict)
    peers: Account | None = None

    def sign_for_peers(self, request: Outgoing) -> Outgoing:
        """A question to another Snode, as it is written."""
        return request if self.peers is None else Credentials(self.peers).sign(request)

    def sign(self, request: Outgoing) -> Outgoing:
        """The request as it is written; as it was, where nobody's name is known."""
        if (self.own is None and not self.clients) or not isinstance(request, Framed):
            return request
        command = request.command
        account = self.clients.get(command.fields.get(ACCESS_KEY, ""), self.own)
        if account is None:
            return request
        fields = {name: value for name, value in command.fields.items() if name not in _OF_SIGNATURES}
        version, without = command.version, _NOTHING
        if command.code == _QUERY_MESSAGE:
            version, without = UNSIGNED_KEY_VERSION, (UNSIGNED_KEY,)
        return framed(command._replace(fields=signed(account, fields, command.body, without=without), version=version))


_NOTHING: Final[Collection[str]] = ()
