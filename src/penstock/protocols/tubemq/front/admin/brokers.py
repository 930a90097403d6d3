"""What scripts do to a broker before they make topics: here it is there already, and online.

So that a script for a real cluster runs on: configuring the one broker again is told as what it is, a record that
exists; bringing it online, or reloading it, succeeds and changes nothing.
"""

from __future__ import annotations

from penstock.protocols.tubemq.front.admin.answers import Answer, from_master, item
from penstock.protocols.tubemq.front.admin.routes import AdminCall
from penstock.protocols.tubemq.front.faults import Refused

__all__ = ["add", "confirm"]

_EXISTS = 402
_UNKNOWN = 401


async def add(call: AdminCall) -> Answer:
    """Serve admin_add_broker_configure."""
    call.parameters.user("createUser")
    rows = []
    for name in call.parameters.names("brokerId", required=True):
        if name == str(call.shared.cluster.broker_id):
            refused = Refused(_EXISTS, f"Existed record found for brokerId({name})!")
        else:
            refused = Refused(_UNKNOWN, f"this node is broker {call.shared.cluster.broker_id}, and takes no other")
        rows.append(item(refused, brokerId=name))
    return from_master(rows)


async def confirm(call: AdminCall) -> Answer:
    """Serve admin_online_broker_configure and admin_reload_broker_configure."""
    call.parameters.user("modifyUser")
    rows = []
    for name in call.parameters.names("brokerId", required=True):
        known = name == str(call.shared.cluster.broker_id)
        refused = None if known else Refused(_UNKNOWN, f"Not found broker configure record by brokerId={name}")
        rows.append(item(refused, brokerId=name))
    return from_master(rows)
