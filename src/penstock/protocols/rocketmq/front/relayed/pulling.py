"""Pulls as stock brokers answer them for groups that they have never heard of: with the subscription in the request.

Source: Apache RocketMQ 4.9 and 5.x, ``PullMessageProcessor``; proved on both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.protocols.rocketmq.command import RemotingCommand
from penstock.protocols.rocketmq.enode.brokers import MASTER
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.faults import Refused
from penstock.protocols.rocketmq.front.relayed.around import Around, RelayedLine
from penstock.protocols.rocketmq.front.relayed.handing_on import Plan, Seen
from penstock.protocols.rocketmq.front.relayed.targets import broker_for, lane_of
from penstock.protocols.rocketmq.messages import PullFlag
from penstock.protocols.rocketmq.usual import Written

__all__ = ["is_pull", "planned", "popped"]

_PULL: Final = 11
_SNODE: Final = 351
_INLINE, _SUSPEND, _COMMIT = int(PullFlag.INLINE), int(PullFlag.SUSPEND), int(PullFlag.COMMIT)
"""Plain numbers: what an enumeration makes of them would cost a pull a twentieth."""
_LOOKS_EVERY_S: Final = 5.0
"""Brokers look at what they hold so often, and end a hold then."""
_GIVES: Final = frozenset({Code.SUCCESS, Code.PULL_NOT_FOUND, Code.PULL_RETRY_IMMEDIATELY, Code.PULL_OFFSET_MOVED})


def is_pull(asked: RemotingCommand) -> bool:
    """Whether it reads; 351 without an offset asks for a topic's configuration (``front/meanings``)."""
    return "queueOffset" in asked.fields


def planned(around: Around, line: RelayedLine, asked: RemotingCommand, said: str) -> Plan | None:
    """The pull as a broker gets it; None where the broker has to be looked up. Raises Refused."""
    fields = asked.fields.read() if isinstance(asked.fields, Written) else dict(asked.fields)
    group, topic, queue = fields.get("consumerGroup", ""), fields.get("topic", ""), fields.get("queueId", "")
    place = (group, topic, queue, said)
    broker = broker_for(around, said, number=around.suggested.get(place) or MASTER, standby=True)
    if broker is None:
        return None
    flags = _number(fields, "sysFlag")
    changed = dict(fields)
    if not flags & _INLINE:
        if around.peers.settling is not None:
            around.peers.settling.reads(group, line)
        changed["subscription"], changed["expressionType"] = _subscribed(around, group, topic, fields)
    if changed.get("expressionType", "TAG") in {"", "TAG"}:
        changed["subVersion"] = "0"
    if broker.number != MASTER:
        flags &= ~_COMMIT  # a standby's offsets are its master's
    changed["sysFlag"] = str(flags | _INLINE)
    held_s = 0.0
    if flags & _SUSPEND:
        asked_ms = max(_number(fields, "suspendTimeoutMillis"), 0)
        held_ms = min(asked_ms, around.options.max_hold_ms)
        changed["suspendTimeoutMillis"] = str(held_ms)
        held_s = held_ms / 1_000 + _LOOKS_EVERY_S
    same = asked.code == _PULL and changed == fields
    command = asked if same else asked._replace(code=_PULL, fields=changed)  # what is the same is not written anew
    seen = _noting(around, place, broker.number)
    return Plan(command, broker, lane_of(line, "pull"), held_s, seen, api=_PULL if asked.code == _SNODE else asked.code)


def popped(around: Around, line: RelayedLine, asked: RemotingCommand, said: str) -> Plan | None:
    """A pop, or a wait for one, which brings its filter and is held for ``pollTime``. As `planned`."""
    broker = broker_for(around, said, standby=False)
    if broker is None:
        return None
    asked_ms = max(_number(asked.fields, "pollTime"), 0)
    held_ms = min(asked_ms, around.options.max_hold_ms)
    if held_ms != asked_ms:
        asked = asked._replace(fields={**asked.fields, "pollTime": str(held_ms)})
    return Plan(asked, broker, lane_of(line, "pull"), held_ms / 1_000 + _LOOKS_EVERY_S if held_ms else 0.0)


def _subscribed(around: Around, group: str, topic: str, fields: Mapping[str, str]) -> tuple[str, str]:
    """What the group said that it wants of the topic. Raises Refused: also where the client has said something newer
    that has not come yet, for what an older filter leaves out would never be read."""
    known = around.clients.consumers.get(group)
    wanted = None if known is None else known.subscriptions.get(topic)
    version = _number(fields, "subVersion")
    if wanted is None or wanted.sub_version < version:  # its Snode may have gone, and it has not beaten here yet
        there = around.peers.union.subscription(group, topic)
        wanted = there if wanted is None or (there and there.sub_version > wanted.sub_version) else wanted
    if wanted is None:
        if known is None:
            raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's group info not exist: {group}")
        raise Refused(Code.SUBSCRIPTION_NOT_EXIST, f"the consumer's subscription not exist: {topic}")
    if wanted.sub_version < version:
        raise Refused(Code.SUBSCRIPTION_NOT_LATEST, "the consumer's subscription not latest")
    return wanted.sub_string, wanted.expression_type


def _noting(around: Around, place: tuple[str, str, str, str], asked_of: int) -> Seen:
    """Remembers where the broker sends the next pull of this queue."""

    def seen(answer: RemotingCommand | None) -> None:
        if answer is None or answer.code not in _GIVES:
            if asked_of != MASTER:
                around.suggested.drop(place)
            return
        number = answer.fields.get("suggestWhichBrokerId", "0")
        if number.isascii() and number.isdecimal() and len(number) < 10 and int(number) != MASTER:
            around.suggested.put(place, int(number))
        elif asked_of != MASTER:
            around.suggested.drop(place)

    return seen


def _number(fields: Mapping[str, str], name: str) -> int:
    text = fields.get(name, "0")
    try:
        if len(text) > 19:
            raise ValueError
        return int(text)
    except ValueError:
        raise Refused(Code.SYSTEM_ERROR, f"the field {name} is no number: {text[:100]!r}") from None
