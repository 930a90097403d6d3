"""The name server: values that operators keep there, by namespace and key. 100, 101, 102, 219.

Nothing here reads them; clients and tools do (``ORDER_TOPIC_CONFIG``). A namespace is there while it has a key.
Source: Apache RocketMQ 4.9 and 5.x, ``DefaultRequestProcessor``, ``KVConfigManager``.
"""

from __future__ import annotations

import json
from typing import Final

from penstock.protocols.rocketmq import messages as m
from penstock.protocols.rocketmq.error_codes import Code
from penstock.protocols.rocketmq.front.call import Call, Reply
from penstock.protocols.rocketmq.front.faults import Refused

__all__ = ["delete", "get", "listed", "put"]

_KIND: Final = "kv"
_MOST: Final = 10_000
_LONGEST: Final = 16_384


async def put(call: Call, request: m.PutKv) -> Reply:
    """Serve put KV config."""
    ledger, name = call.shared.ledger, _name(request.namespace, request.key)
    length = len(name) + len(request.value)
    if length > _LONGEST:
        raise Refused(Code.SYSTEM_ERROR, f"a value of {length} letters with its names, the longest has {_LONGEST}")
    if ledger.get(_KIND, name) is None and sum(1 for _ in ledger.all(_KIND)) >= _MOST:
        raise Refused(Code.SYSTEM_ERROR, f"{_MOST} values are kept, and no more are taken: delete some (102)")
    await ledger.put(_KIND, name, request.value)
    return Reply()


async def get(call: Call, request: m.OfKv) -> Reply:
    """Serve get KV config."""
    value = call.shared.ledger.get(_KIND, _name(request.namespace, request.key))
    if value is None:
        raise _unknown(f"Namespace: {request.namespace} Key: {request.key}")
    return Reply(m.KvValue(value=value))


async def delete(call: Call, request: m.OfKv) -> Reply:
    """Serve delete KV config; also of what is not there."""
    ledger, name = call.shared.ledger, _name(request.namespace, request.key)
    if ledger.get(_KIND, name) is not None:
        await ledger.put(_KIND, name, None)
    return Reply()


async def listed(call: Call, request: m.OfNamespace) -> Reply:
    """Serve get KV list by namespace."""
    every = ((json.loads(name), value) for name, value in call.shared.ledger.all(_KIND))
    found = {key: value for (namespace, key), value in every if namespace == request.namespace}
    if not found:
        raise _unknown(f"Namespace: {request.namespace}")
    return Reply(body=m.Table(table=found))


def _name(namespace: str, key: str) -> str:
    return json.dumps([namespace, key], ensure_ascii=False)


def _unknown(what: str) -> Refused:
    return Refused(Code.QUERY_NOT_FOUND, f"No config item, {what}")
