"""What scripts do to a broker: here it is there already, and online.

So that a script for a real cluster runs on: configuring the one broker again is told as what it is, a record that
exists; bringing it online, or reloading it, succeeds and changes nothing. It can be closed for writing and reading.
"""

from __future__ import annotations

from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.admin.answers import EXISTS, UNKNOWN, Answer, from_master, item
from penstock.protocols.tubemq.front.admin.routes import AdminCall
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.settings import BrokerSettings

__all__ = ["OF_TOPICS", "add", "confirm", "open_or_close", "update"]

_FIXED = ("brokerIp", "brokerPort", "brokerWebPort", "brokerTLSPort", "regionId", "groupId", "manageStatus")
OF_TOPICS = (
    "deletePolicy",
    "memCacheFlushIntvl",
    "memCacheMsgCntInK",
    "memCacheMsgSizeInMB",
    "numPartitions",
    "numTopicStores",
    "unflushDataHold",
    "unflushInterval",
    "unflushThreshold",
)


async def add(call: AdminCall) -> Answer:
    """Serve admin_add_broker_configure."""
    call.parameters.user("createUser")
    rows = []
    for name in call.parameters.names("brokerId", required=True):
        if name == str(call.shared.cluster.broker_id):
            refused = Refused(EXISTS, f"Existed record found for brokerId({name})!")
        else:
            refused = Refused(UNKNOWN, f"this node is broker {call.shared.cluster.broker_id}, and takes no other")
        rows.append(_row(call, name, refused))
    return from_master(rows)


async def confirm(call: AdminCall) -> Answer:
    """Serve what succeeds at a broker that is online, has its configuration and was never forbidden anything.

    These are admin_online_broker_configure, admin_reload_broker_configure and
    admin_release_broker_autoforbidden_status.
    """
    call.parameters.user("modifyUser")
    return _rows(call)


async def open_or_close(call: AdminCall) -> Answer:
    """Serve admin_set_broker_read_or_write: whether topics of the node may be written and read at all."""
    call.parameters.user("modifyUser")
    return _open(call)


async def update(call: AdminCall) -> Answer:
    """Serve admin_update_broker_configure, as far as it says the same; what else it may say is refused."""
    given = call.parameters
    given.user("modifyUser")
    given.refuse(_FIXED, "this node is its only broker, and is what it was started as")
    given.refuse(OF_TOPICS, "say it with each topic, this node keeps no defaults of topics")
    return _open(call)


def _open(call: AdminCall) -> Answer:
    given, settings = call.parameters, call.shared.settings
    publish, subscribe = given.flag("acceptPublish"), given.flag("acceptSubscribe")
    if publish is None and subscribe is None:
        raise Refused(Code.BAD_REQUEST, "Parameter acceptPublish or acceptSubscribe is missing or value is blank!")
    if str(call.shared.cluster.broker_id) in given.names("brokerId", required=True):
        known = settings.broker
        settings.set_broker(
            BrokerSettings(
                known.accepts_publish if publish is None else publish,
                known.accepts_subscribe if subscribe is None else subscribe,
            )
        )
    return _rows(call)


def _rows(call: AdminCall) -> Answer:
    rows = []
    for name in call.parameters.names("brokerId", required=True):
        known = name == str(call.shared.cluster.broker_id)
        refused = None if known else Refused(UNKNOWN, f"Not found broker configure record by brokerId={name}")
        rows.append(_row(call, name, refused))
    return from_master(rows)


def _row(call: AdminCall, name: str, refused: Refused | None) -> Answer:
    host = call.shared.cluster.node.endpoint.host if name == str(call.shared.cluster.broker_id) else ""
    return item(refused, brokerId=int(name) if name.isdigit() else name, brokerIp=host)
