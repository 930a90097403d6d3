"""Options of the node that change while it runs: what topics have that do not say, under the broker's names for it.

They are kept with the topics, over a restart. Everything else is given when the node starts, and refused here with the
words of Apache Kafka 4.3.1, where most of it cannot be changed either. Source: KIP-226.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from penstock.protocols.kafka.error_codes import ErrorCode
from penstock.protocols.kafka.front.call import Call
from penstock.protocols.kafka.front.config_values import Option, canonical
from penstock.protocols.kafka.front.described_options import EVERY_BROKER
from penstock.protocols.kafka.front.faults import Refused
from penstock.protocols.kafka.front.topic_options import BROKER_NAMES, OPTIONS, check_options

__all__ = ["changeable", "check_broker", "check_number", "set_broker_options", "what_was_set"]

_TOPICS_NAMES: Mapping[str, str] = {theirs: name for name, theirs in BROKER_NAMES.items()}


def changeable(name: str) -> Option | None:
    """What is known of a broker's option that can be changed."""
    topics_name = _TOPICS_NAMES.get(name)
    return None if topics_name is None else OPTIONS[topics_name]


def check_broker(call: Call, name: str, options: Collection[str]) -> None:
    """Raises Refused if options of that broker cannot be changed."""
    if name != EVERY_BROKER:
        check_number(call, name, "Node id must be an integer, but it is", f"{call.shared.node_id},")
    fixed = [each for each in options if each not in _TOPICS_NAMES]
    if fixed:
        words = f"Cannot update these configs dynamically: [{', '.join(fixed)}]"
        raise Refused(ErrorCode.INVALID_REQUEST, f"{words}; they are given when the node starts")


async def what_was_set(call: Call, name: str) -> Mapping[str, str]:
    """For that broker, or for all."""
    return (await call.shared.enode.node_options()).get(_scope(call, name), {})


def _scope(call: Call, name: str) -> str:
    return EVERY_BROKER if name == EVERY_BROKER else str(call.shared.node_id)


async def set_broker_options(call: Call, name: str, wanted: Mapping[str, str | None], validate_only: bool) -> None:
    """Replace what was set for that broker, or for all. Raises Refused."""
    checked = {}
    for each, value in wanted.items():
        option = changeable(each)
        if value is None or option is None:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Null value not supported for : {each}")
        checked[each] = canonical(each, option, value, ErrorCode.INVALID_REQUEST)
    enode = call.shared.enode
    known = {**await enode.node_options(), _scope(call, name): checked}
    said = {scope: options for scope, options in known.items() if options}
    in_force = {**said.get(EVERY_BROKER, {}), **said.get(str(call.shared.node_id), {})}
    defaults = check_options({_TOPICS_NAMES[each]: value for each, value in in_force.items()})
    if not validate_only:
        await enode.set_defaults(defaults, said)


def check_number(call: Call, name: str, no_number: str, wanted: str) -> None:
    """Whether that is this node's number. Raises Refused."""
    try:
        number = int(name)
    except ValueError:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{no_number}: {name}") from None
    if number != call.shared.node_id:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {wanted} but received {name}")
