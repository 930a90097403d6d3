"""One client's session over the node's own log: which request codes are served, and by which handler.

``TABLE`` names the handler of each code, ``REFUSED`` the reason for each code that is not served. ``RocketSession``
serves one connection. ``RocketWording`` injects faults for tests.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable, Mapping
from typing import Any, Final

from penstock.errors import PenstockError
from penstock.interfaces.framing import Buffers, Frame, Pieces
from penstock.interfaces.front import OTHER, Handle, Peer, check_name
from penstock.protocols.rocketmq.errors import Code, Refused, refusal, rows, unreadable
from penstock.protocols.rocketmq.server.call import (
    Call,
    ClientConnection,
    ClientSession,
    Handler,
    Shared,
    is_of_5x,
    is_snode_pull,
)
from penstock.protocols.rocketmq.server.clients import tell
from penstock.protocols.rocketmq.wire import rpc
from penstock.protocols.rocketmq.wire.framing import RemotingCommand, code_of, command_of, whole
from penstock.protocols.rocketmq.wire.rpc import METHODS, SNODE_PULL_MESSAGE, Method, answer, read_request
from penstock.protocols.rocketmq.wire.rpc import refusal as refused

__all__ = ["REFUSED", "SNODE_PULL", "TABLE", "RocketSession", "RocketWording", "handler", "meant"]

TABLE: Final[Mapping[int, str]] = {
    10: "send_requests.send",
    11: "read_requests.pull",
    12: "read_requests.query_messages",
    14: "group_requests.committed_offset",
    15: "group_requests.commit_offset",
    17: "cluster_requests.create_topic",
    18: "cluster_requests.create_topics",
    21: "cluster_requests.topic_configs",
    25: "cluster_requests.set_broker_config",
    26: "cluster_requests.broker_config",
    28: "cluster_requests.broker_runtime",
    29: "group_requests.search_offset",
    30: "group_requests.end_offset",
    31: "group_requests.start_offset",
    32: "group_requests.earliest_time",
    33: "read_requests.view_message",
    34: "group_requests.heartbeat",
    35: "group_requests.unregister",
    36: "send_requests.send_back",
    37: "send_requests.end_transaction",
    38: "group_requests.members",
    41: "group_requests.lock_queues",
    42: "group_requests.unlock_queues",
    43: "group_requests.all_committed_offsets",
    46: "group_requests.check_subscription",
    100: "cluster_requests.put_value",
    101: "cluster_requests.get_value",
    102: "cluster_requests.delete_value",
    105: "cluster_requests.topic_route",
    106: "cluster_requests.cluster_brokers",
    200: "group_requests.create_group",
    201: "group_requests.group_settings",
    202: "cluster_requests.topic_stats",
    203: "group_requests.connections",
    204: "group_requests.producers",
    205: "cluster_requests.wipe_write_perm",
    206: "cluster_requests.all_topics",
    207: "group_requests.delete_group",
    208: "group_requests.group_stats",
    215: "cluster_requests.delete_topic",
    216: "cluster_requests.forget_topic",
    219: "cluster_requests.list_values",
    222: "group_requests.reset_offsets",
    224: "cluster_requests.topics_of_cluster",
    225: "group_requests.create_groups",
    300: "group_requests.topic_readers",
    304: "cluster_requests.name_server_topics",
    305: "cluster_requests.system_topics",
    307: "read_requests.ask_running_info",
    309: "read_requests.ask_to_consume",
    310: "send_requests.send",
    315: "group_requests.consumed_counts",
    317: "group_requests.all_group_stats",
    319: "cluster_requests.name_server_config",
    320: "send_requests.send",
    324: "read_requests.pass_on_reply",
    325: "read_requests.pass_on_reply",
    327: "cluster_requests.add_write_perm",
    328: "group_requests.all_producers",
    350: "cluster_requests.register_snode",
    351: "cluster_requests.topic_config",
    352: "group_requests.group_setting",
    353: "cluster_requests.known_snodes",
    354: "cluster_requests.snodes_of_cluster",
    355: "cluster_requests.create_retry_topic",
    361: "read_requests.pull",
}
"""Request code to "module.function" in this folder. A module is imported with the first request that needs it."""

REFUSED: Final[Mapping[int, str]] = {
    45: "delayed messages wait by their level; where each stands is not shown",
    50: "accounts are the node's option rocketmq_accounts",
    51: "accounts are the node's option rocketmq_accounts",
    52: "accounts are the node's option rocketmq_accounts",
    53: "accounts are the node's option rocketmq_accounts",
    217: "topics are made at the broker (17), which is the name server, too",
    223: "ask how far the group is (208), or a member how it is (307)",
    303: "ask how far the group is (208)",
    306: "there are no consume queues: what is deleted takes no room",
    311: "there are no units",
    312: "there are no units",
    313: "there are no units",
    314: "commit the offsets in the other group's name (15)",
    316: "a topic that is deleted takes no room",
    318: "the name server is the node, whose options are given at its start",
    321: "there are no consume queues: read the messages (11)",
    323: "a producer is asked again by itself until it has decided",
    329: "messages are deleted by the topic's retention.ms and retention.bytes",
    343: "ask which groups read a topic (300)",
    345: "ask for the group's connections and subscriptions (203)",
    353: "a group may read all topics, or none (consumeEnable)",
    354: "there are no consume queues",
    355: "there is no RocksDB: settings are in the node's own log",
    370: "delayed messages cannot be called back",
    400: "a group's members share its queues out by themselves (clientRebalance)",
    401: "groups pull: POP is not served",
    **dict.fromkeys(range(901, 909), "there are no standby brokers"),
    **dict.fromkeys(range(1_001, 1_014), "there is no controller, and there are no standby brokers"),
    **dict.fromkeys(range(2_001, 2_007), "reads are not slowed down by their age"),
    **dict.fromkeys(range(3_001, 3_011), "accounts are the node's option rocketmq_accounts"),
    **dict.fromkeys(
        (200_050, 200_051, 200_052, 200_053, 200_054, 200_055, 200_056, 200_151), "POP is not served: pull"
    ),
}
"""Codes that RocketMQ's tools and clients send and that the node does not serve, with the reason or an alternative.
353 to 355 have their meaning of 5.x here."""

SNODE_PULL: Final = "read_requests.snode_pull"
"""The handler of 351 where the request is a pull."""


def meant(asked: RemotingCommand) -> tuple[Method[Any, Any], Handler] | None:
    """The method and the handler of a request; None if the node does not serve it."""
    if is_snode_pull(asked):
        return SNODE_PULL_MESSAGE, handler(SNODE_PULL)
    if asked.code not in TABLE or is_of_5x(asked):
        return None
    return METHODS[asked.code], handler(TABLE[asked.code])


@functools.cache
def handler(name: str) -> Handler:
    """The handler with this name in the table."""
    module, function = name.split(".")
    found: Handler = getattr(importlib.import_module(f"penstock.protocols.rocketmq.server.{module}"), function)
    return found


# A request that cannot be read or is not served gets an error response, and the connection goes on. The connection ends
# only where the request's number, which the response needs, cannot be read either. Source: Apache RocketMQ 4.9 and 5.x,
# ``NettyRemotingAbstract``.
class RocketSession(ClientSession):
    """One RocketMQ client's connection (``penstock.interfaces.front.Session``). Requests are served concurrently."""

    def __init__(self, shared: Shared, peer: Peer, ended: Callable[[RocketSession], None]) -> None:
        super().__init__(shared, ClientConnection(peer.address, peer.push, peer.hang_up))
        self._shared = shared
        self._ended = ended

    @property
    def at_once(self) -> bool:
        return self._shared.enode.near

    async def handle(self, frame: Frame) -> Buffers | None:
        """Serve one request."""
        cut = whole(frame)
        command, error = cut.command, cut.unreadable
        if command.is_answer:
            self.line.answered(cut)
            return None
        meter = self._shared.meter
        began = meter.now()
        found = await self._answer(command) if error is None else _refused(command, unreadable(error))
        api = command.code if command.code in TABLE else OTHER
        meter.answered(api, meter.now() - began)
        if code := code_of(found):
            meter.refused(api, code)
            tell(meter, self._shared.clients, self.line, api, command.fields, code, found)
        return None if command.is_one_way else found

    def lost(self) -> None:
        super().lost()
        self._ended(self)

    async def _answer(self, asked: RemotingCommand) -> Buffers:
        found = meant(asked)
        if found is None:
            why = f": {REFUSED[asked.code]}" if asked.code in REFUSED else ""
            return refused(asked, Code.REQUEST_CODE_NOT_SUPPORTED, f" request type {asked.code} not supported{why}")
        shared = self._shared
        try:
            if shared.admission is not None:
                shared.admission.check(asked, shared.now)
            method, serve = found
            header = read_request(method, asked)
            said = await serve(Call(self._shared, self.line, asked), header)
        except PenstockError as error:
            return _refused(asked, refusal(error))
        return answer(asked, said.header, said.body, code=said.code, remark=said.remark, extra=said.extra)


def _refused(asked: RemotingCommand, no: Refused) -> Buffers:
    return refused(asked, no.code, no.message)


# Fault injection in tests; nothing else uses this part.
#
# APIs are requests by their names in `wire/rpc` ("SEND_MESSAGE_V2"), errors are codes by theirs. RocketMQ's refusals
# carry only a code and a text, so a spoilt answer equals a refusal. One-way requests get none.
_APIS: Final = {METHODS[code].name for code in TABLE}
_CODES: Final = {row.name: row.code for row in rows() if row.code != Code.SUCCESS}
_TEXT: Final = "an injected fault"


class RocketWording:
    """``penstock.interfaces.front.Wording``."""

    def check(self, api: str, error: str = "") -> None:
        """Raise UsageError for a name that RocketMQ does not have, or a request that the node does not serve."""
        if api:
            check_name("RocketMQ", "request", api, _APIS)
        if error:
            check_name("RocketMQ", "error", error, _CODES)

    def api_of(self, frame: Frame) -> str:
        """The request's name; "" for one that is not served."""
        code = command_of(frame).code
        return METHODS[code].name if code in TABLE else ""

    async def refusal(self, frame: Frame, error: str, handle: Handle) -> Pieces | None:
        """A response with ``error``; the request has no effect."""
        del handle
        return _refusal(frame, error)

    def spoilt(self, frame: Frame, answer: Pieces, error: str) -> Pieces:
        """A refusal in place of the real response."""
        said = _refusal(frame, error)
        return answer if said is None else said


def _refusal(frame: Frame, error: str) -> Buffers | None:
    asked = command_of(frame)
    return None if asked.is_one_way else rpc.refusal(asked, _CODES[error], _TEXT)
