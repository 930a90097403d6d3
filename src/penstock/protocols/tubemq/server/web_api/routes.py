"""Administrative methods: which there are, their parameters, and the shapes of their answers."""

from __future__ import annotations

import functools
import importlib
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime
from hmac import compare_digest
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from msgspec import Struct

from penstock.concurrency.runtime import retry_while_unreachable
from penstock.errors import PenstockError
from penstock.interfaces.framing import Buffers
from penstock.protocols.tubemq.errors import Code, Refused, refusal
from penstock.protocols.tubemq.server.context import Shared
from penstock.protocols.tubemq.server.http import HttpRefused, json_answer, parameters_of, text_answer

if TYPE_CHECKING:
    from penstock.interfaces.http import HttpRequest

__all__ = [
    "CONDITION",
    "EXISTS",
    "REFUSED",
    "ROUTES",
    "UNKNOWN",
    "Admin",
    "AdminCall",
    "Answer",
    "Parameters",
    "Route",
    "date",
    "done",
    "from_broker",
    "from_master",
    "item",
]

# The shapes of the administration's answers. Data only; `routes` adds ``result``, ``errCode`` and ``errMsg``.
Answer = Mapping[str, Any]

EXISTS: Final = 402
UNKNOWN: Final = 401
CONDITION: Final = 406
"""Codes of a row: what is to be made is there; what is to be changed is not; it is not in the state for that."""


def from_master(rows: Sequence[Any]) -> Answer:
    """A master's list."""
    return {"data": rows, "count": len(rows)}


def from_broker(rows: Sequence[Any], count: str = "totalCnt") -> Answer:
    """A broker's list, which has other names for the same."""
    return {"errMsg": "Success!", "dataSet": rows, count: len(rows)}


def done() -> Answer:
    """Nothing to tell."""
    return {}


def item(refused: Refused | None = None, **names: object) -> Answer:
    """One part of a batch call: what it was about, and how it went."""
    if refused is None:
        return {**names, "success": True, "errCode": 200, "errInfo": "Ok!"}
    return {**names, "success": False, "errCode": refused.code, "errInfo": refused.message}


def date(now_ms: int) -> str:
    """A time as the real servers show it, in UTC; empty for none."""
    return datetime.fromtimestamp(now_ms / 1_000, UTC).strftime("%Y%m%d%H%M%S") if now_ms > 0 else ""


# Reading the parameters of an administrative call: there or not, of the right form, or a refusal that says which.
_TOPIC: Final = re.compile(r"[a-zA-Z]\w{1,63}", re.ASCII)
_TRUE: Final = frozenset({"true", "1"})
_FALSE: Final = frozenset({"false", "0"})
_MOST_NAMES: Final = 1_000
_MOST_JSON: Final = 1 << 20

_SHORT: Final[Mapping[str, str]] = {
    "acceptPublish": "accPub",
    "acceptSubscribe": "accSub",
    "allowedBClientRate": "abcr",
    "alwdBrokerClientRate": "abcr",
    "brokerJsonSet": "brokerSet",
    "confModAuthToken": "authToken",
    "consumeEnable": "csmEn",
    "consumeGroup": "group",
    "consumerId": "csmId",
    "createUser": "cur",
    "deletePolicy": "delPolicy",
    "disableCsmRsn": "dsCsmRsn",
    "divide": "div",
    "enableAuthControl": "acEn",
    "filterConds": "flts",
    "filterCondJsonSet": "filterJsonSet",
    "filterEnable": "fltEn",
    "flowCtrlEnable": "fCtrlEn",
    "flowCtrlInfo": "flowCtrlSet",
    "groupCsmJsonSet": "csmJsonSet",
    "groupName": "group",
    "groupNameJsonSet": "gJsonSet",
    "groupResCtrlJsonSet": "gResCtrlSet",
    "manualOffset": "offset",
    "manualSet": "manSet",
    "modifyUser": "mur",
    "msgCount": "cnt",
    "numPartitions": "numPart",
    "numTopicStores": "numStore",
    "offsetJsonInfo": "offsetInfo",
    "onlyMemory": "onlyMem",
    "partitionId": "pid",
    "qryPriorityId": "qryPriId",
    "reJoinWait": "rjWait",
    "resCheckEnable": "resChkEn",
    "requireRealOffset": "dko",
    "sourceGroupName": "srcGroup",
    "targetGroupName": "tgtGroup",
    "topicCtrlJsonSet": "tCtrlSet",
    "topicJsonSet": "topicSet",
    "topicName": "topic",
    "topicNameId": "topicId",
    "topicStatusId": "tStsId",
    "withIp": "ip",
}
"""The other names that TubeMQ's servers take for a parameter."""

_OF_EVERY_CALL: Final = frozenset(
    {"method", "type", "callback", "_", "confModAuthToken", "createUser", "createDate", "modifyUser", "modifyDate"}
)


class Parameters:
    """Each method raises Refused (BAD_REQUEST) for what is missing, blank or of another form."""

    def __init__(self, given: Mapping[str, str]) -> None:
        self._given = given
        self._unread = set(given) - _OF_EVERY_CALL

    @property
    def unread(self) -> list[str]:
        """Names of parameters that are given and that no method was asked for: they have no effect."""
        return sorted(name for name in self._unread if self._given[name].strip())

    @property
    def about(self) -> dict[str, str]:
        """What a call of a batch is about, as far as it says so."""
        named = {name: self.optional(name) for name in ("brokerId", "topicName", "groupName")}
        return {name: value for name, value in named.items() if value}

    def optional(self, name: str) -> str:
        """The value, trimmed; empty where there is none. The short form of a name counts where the long one is not."""
        used = name if name in self._given else _SHORT.get(name, name)
        self._unread.discard(used)
        return self._given.get(used, "").strip()

    def refuse(self, names: Iterable[str], why: str) -> None:
        """Raise Refused, which says ``why``, where one of these is given."""
        given = [name for name in names if self.optional(name)]
        if given:
            raise _refused(f"Parameter {', '.join(given)}: {why}")

    def each(self, name: str) -> list[Parameters]:
        """The calls of a batch: a JSON list of objects, each with the parameters that all share."""
        text = self.text(name)
        try:
            found = json.loads(text) if len(text) <= _MOST_JSON else None
        except (ValueError, RecursionError):
            found = None
        if not isinstance(found, list) or not found or not all(isinstance(each, dict) for each in found):
            raise _refused(f"Parameter {name} must be a JSON list of objects, at least one")
        if len(found) > _MOST_NAMES:
            raise _refused(f"Parameter {name} has {len(found)} objects, {_MOST_NAMES} are allowed")
        shared = {key: value for key, value in self._given.items() if key in _OF_EVERY_CALL}
        return [Parameters({**shared, **{str(key): _written(value) for key, value in each.items()}}) for each in found]

    def text(self, name: str) -> str:
        """A value that must be there."""
        value = self.optional(name)
        if not value:
            raise _refused(f"Parameter {name} is missing or value is blank!")
        return value

    def user(self, *names: str) -> str:
        """Who asks: one of ``names`` must be there (createUser where something is made, else modifyUser)."""
        found = next((value for name in names if (value := self.optional(name))), "")
        return found or self.text(names[0])

    def names(self, name: str, *, required: bool = False) -> list[str]:
        """A list between commas, each name once."""
        found = list(dict.fromkeys(part.strip() for part in self.optional(name).split(",") if part.strip()))
        if required and not found:
            self.text(name)
        if len(found) > _MOST_NAMES:
            raise _refused(f"Parameter {name} has {len(found)} names, {_MOST_NAMES} are allowed")
        return found

    def new_topics(self) -> list[str]:
        """Names that topics can be given."""
        topics = self.names("topicName", required=True)
        for topic in topics:
            if not _TOPIC.fullmatch(topic):
                raise _refused(
                    "illegal value for topicName, value must begin with a letter, "
                    "can only contain English letters, numbers, and underscores"
                )
        return topics

    def number(self, name: str, default: int | None = None, *, low: int, high: int = 2**63 - 1) -> int:
        """A whole number; ``default`` None: it must be there."""
        text = self.optional(name) if default is not None else self.text(name)
        if not text and default is not None:
            return default
        if not re.fullmatch(r"-?[0-9]{1,19}", text) or not low <= int(text) <= high:
            raise _refused(f"Parameter {name} value must be a number from {low} to {high}, it is {text[:80]!r}")
        return int(text)

    def flag(self, name: str) -> bool | None:
        """True, False, or None where nothing is said."""
        text = self.optional(name).lower()
        if text and text not in _TRUE | _FALSE:
            raise _refused(f"Parameter {name} value must be true or false, it is {text[:80]!r}")
        return None if not text else text in _TRUE


def _written(value: Any) -> str:
    """A value of JSON as it would stand in a form."""
    if isinstance(value, str):
        return value
    return "" if value is None else json.dumps(value)


def _refused(message: str) -> Refused:
    return Refused(Code.BAD_REQUEST, message)


# Which administrative methods there are, and by whom they are served: the only place that says so.
#
# Source: TubeMQ 2.x, HTTP interfaces of master and broker. A failure is an answer with ``result`` false and the code.
class AdminCall(Struct, frozen=True):
    """One call: the front's shared parts and the parameters."""

    shared: Shared
    parameters: Parameters


AdminHandler = Callable[[AdminCall], Awaitable[Mapping[str, Any]]]
"""Returns the answer without ``result``, ``errCode`` and ``errMsg`` where these say that all is well."""


class Route(NamedTuple):
    """``handler`` is "module.function" in this folder; ``token``: it changes something and needs the token.

    ``batch``: the parameter that has a list of such calls, which are made one after the other.
    """

    handler: str
    token: bool = False
    batch: str = ""


ROUTES: Final[Mapping[str, Route]] = {
    # What a master serves.
    "admin_add_authorized_consumergroup_info": Route("access_control.allow_group", token=True),
    "admin_add_black_consumergroup_info": Route("access_control.deny_group", token=True),
    "admin_add_broker_configure": Route("limits.add", token=True),
    "admin_add_consume_group_setting": Route("limits.add_group", token=True),
    "admin_add_group_csmctrl_info": Route("access_control.add_record", token=True),
    "admin_add_group_filtercond_info": Route("access_control.set_filters", token=True),
    "admin_add_group_resctrl_info": Route("limits.add_group", token=True),
    "admin_add_new_topic_record": Route("topics.add", token=True),
    "admin_add_topic_control_info": Route("access_control.set_topic", token=True),
    "admin_add_topic_deploy_info": Route("topics.add", token=True),
    "admin_batch_add_broker_configure": Route("limits.add", token=True, batch="brokerJsonSet"),
    "admin_batch_add_group_csmctrl_info": Route("access_control.add_record", token=True, batch="groupCsmJsonSet"),
    "admin_batch_add_group_resctrl_info": Route("limits.add_group", token=True, batch="groupResCtrlJsonSet"),
    "admin_batch_add_topic_control_info": Route("access_control.set_topic", token=True, batch="topicCtrlJsonSet"),
    "admin_batch_del_authorized_consumergroup_info": Route(
        "access_control.forbid_group", token=True, batch="groupNameJsonSet"
    ),
    "admin_batch_delete_black_consumergroup_info": Route(
        "access_control.permit_group", token=True, batch="groupNameJsonSet"
    ),
    "admin_batch_delete_group_csmctrl_info": Route("access_control.drop_records", token=True, batch="groupCsmJsonSet"),
    "admin_batch_update_broker_configure": Route("limits.update", token=True, batch="brokerJsonSet"),
    "admin_batch_update_group_csmctrl_info": Route("access_control.update_record", token=True, batch="groupCsmJsonSet"),
    "admin_batch_update_group_resctrl_info": Route("limits.update_group", token=True, batch="groupResCtrlJsonSet"),
    "admin_batch_update_topic_control_info": Route("access_control.set_topic", token=True, batch="topicCtrlJsonSet"),
    "admin_batch_update_topic_deploy_info": Route("topics.update", token=True, batch="topicJsonSet"),
    "admin_bath_add_authorized_consumergroup_info": Route(
        "access_control.allow_group", token=True, batch="groupNameJsonSet"
    ),
    "admin_bath_add_black_consumergroup_info": Route("access_control.deny_group", token=True, batch="groupNameJsonSet"),
    "admin_bath_add_broker_configure": Route("limits.add", token=True, batch="brokerJsonSet"),
    "admin_bath_add_consume_group_setting": Route("limits.add_group", token=True, batch="groupNameJsonSet"),
    "admin_bath_add_group_filtercond_info": Route("access_control.set_filters", token=True, batch="filterCondJsonSet"),
    "admin_bath_add_new_topic_record": Route("topics.add", token=True, batch="topicJsonSet"),
    "admin_bath_add_topic_authorize_control": Route("access_control.authorize", token=True, batch="topicJsonSet"),
    "admin_bath_add_topic_deploy_info": Route("topics.add", token=True, batch="topicJsonSet"),
    "admin_bath_mod_group_filtercond_info": Route("access_control.set_filters", token=True, batch="filterCondJsonSet"),
    "admin_del_consume_group_setting": Route("limits.drop_group", token=True),
    "admin_del_group_filtercond_info": Route("access_control.drop_filters", token=True),
    "admin_delete_allowed_consumer_group_info": Route("access_control.forbid_group", token=True),
    "admin_delete_black_consumergroup_info": Route("access_control.permit_group", token=True),
    "admin_delete_group_csmctrl_info": Route("access_control.drop_records", token=True),
    "admin_delete_group_resctrl_info": Route("limits.drop_group", token=True),
    "admin_delete_topic_authorize_control": Route("access_control.unauthorize", token=True),
    "admin_delete_topic_control_info": Route("access_control.drop_topic", token=True),
    "admin_delete_topic_deploy_info": Route("topics.delete", token=True),
    "admin_delete_topic_info": Route("topics.delete", token=True),
    "admin_get_methods": Route("status.methods"),
    "admin_mod_group_filtercond_info": Route("access_control.set_filters", token=True),
    "admin_modify_topic_info": Route("topics.update", token=True),
    "admin_online_broker_configure": Route("limits.confirm", token=True),
    "admin_query_allowed_consumer_group_info": Route("access_control.query_allowed"),
    "admin_query_black_consumer_group_info": Route("access_control.query_denied"),
    "admin_query_booked_csmctrl_groups": Route("access_control.query_groups"),
    "admin_query_booked_resctrl_groups": Route("limits.query_names"),
    "admin_query_broker_configure": Route("status.broker_configure"),
    "admin_query_broker_run_status": Route("status.broker_run_status"),
    "admin_query_broker_topic_config_info": Route("topics.query_by_broker"),
    "admin_query_client_balance_group_set": Route("groups.client_balanced"),
    "admin_query_cluster_default_setting": Route("limits.query_cluster"),
    "admin_query_cluster_topic_view": Route("topics.query_view"),
    "admin_query_consume_group_detail": Route("groups.detail"),
    "admin_query_consume_group_setting": Route("limits.query_setting"),
    "admin_query_def_flow_control_rule": Route("limits.query_default"),
    "admin_query_deployed_broker_ids": Route("topics.query_brokers"),
    "admin_query_deployed_topics": Route("topics.query_names"),
    "admin_query_group_csmctrl_info": Route("access_control.query_records"),
    "admin_query_group_filtercond_info": Route("access_control.query_filters"),
    "admin_query_group_flow_control_rule": Route("limits.query_group"),
    "admin_query_group_info_by_topic": Route("groups.by_topic"),
    "admin_query_group_resctrl_info": Route("limits.query_resources"),
    "admin_query_master_group_info": Route("status.master_group"),
    "admin_query_server_version": Route("status.version"),
    "admin_query_sub_info": Route("groups.query_subscriptions"),
    "admin_query_topic_authorize_control": Route("access_control.query_authorize"),
    "admin_query_topic_broker_config_info": Route("topics.query_by_topic"),
    "admin_query_topic_control_info": Route("access_control.query_topics"),
    "admin_query_topic_deploy_configure": Route("topics.query_configured"),
    "admin_query_topic_deploy_info": Route("topics.query_deployed"),
    "admin_query_topic_info": Route("topics.query"),
    "admin_rebalance_group_allocate": Route("groups.rebalance", token=True),
    "admin_redo_deleted_topic_deploy_info": Route("topics.restore", token=True),
    "admin_redo_deleted_topic_info": Route("topics.restore", token=True),
    "admin_release_broker_autoforbidden_status": Route("limits.confirm", token=True),
    "admin_reload_broker_configure": Route("limits.confirm", token=True),
    "admin_remove_topic_deploy_info": Route("topics.remove", token=True),
    "admin_remove_topic_info": Route("topics.remove", token=True),
    "admin_rmv_def_flow_control_rule": Route("limits.drop_default", token=True),
    "admin_rmv_group_flow_control_rule": Route("limits.drop_group", token=True),
    "admin_set_broker_read_or_write": Route("limits.open_or_close", token=True),
    "admin_set_client_balance_group_consume_from_max": Route("groups.skip_to_end", token=True),
    "admin_set_cluster_default_setting": Route("limits.set_cluster", token=True),
    "admin_set_def_flow_control_rule": Route("limits.set_default", token=True),
    "admin_set_group_flow_control_rule": Route("limits.set_group", token=True),
    "admin_set_topic_authorize_control": Route("access_control.authorize", token=True),
    "admin_upd_consume_group_setting": Route("limits.update_group", token=True),
    "admin_upd_def_flow_control_rule": Route("limits.set_default", token=True),
    "admin_upd_group_flow_control_rule": Route("limits.set_group", token=True),
    "admin_update_broker_configure": Route("limits.update", token=True),
    "admin_update_cluster_default_setting": Route("limits.set_cluster", token=True),
    "admin_update_group_csmctrl_info": Route("access_control.update_record", token=True),
    "admin_update_group_resctrl_info": Route("limits.update_group", token=True),
    "admin_update_topic_control_info": Route("access_control.set_topic", token=True),
    "admin_update_topic_deploy_info": Route("topics.update", token=True),
    # What a broker serves, without a token.
    "admin_clone_offset": Route("groups.clone_offsets"),
    "admin_get_booked_groupname": Route("groups.groups"),
    "admin_get_group_detail_info": Route("status.consumers"),
    "admin_get_partition_reginfo": Route("status.bookings"),
    "admin_manual_set_current_offset": Route("groups.set_offset"),
    "admin_query_broker_all_consumer_info": Route("status.consumers"),
    "admin_query_broker_all_store_info": Route("status.stores"),
    "admin_query_consumer_regmap": Route("status.bookings"),
    "admin_query_group": Route("groups.groups"),
    "admin_query_group_offset": Route("groups.query_offset"),
    "admin_query_offset": Route("groups.query_offsets"),
    "admin_query_pubinfo": Route("groups.bounds"),
    "admin_rmv_offset": Route("groups.remove_offsets"),
    "admin_set_offset": Route("groups.set_offsets"),
    "admin_snapshot_message": Route("status.messages"),
}

_STATISTICS: Final = "statistics of a node are on its page of metrics (option metrics)"
_HISTORY: Final = "this node keeps no history of offsets"
_ONE_BROKER: Final = "this node is its only broker, and is online while it runs"

REFUSED: Final[Mapping[str, str]] = {
    "admin_backup_group_offsets": "offsets are in the node's log; back up its folder",
    "admin_delete_broker_configure": _ONE_BROKER,
    "admin_disable_all_stats": _STATISTICS,
    "admin_disable_stats": _STATISTICS,
    "admin_enable_stats": _STATISTICS,
    "admin_get_group_history_offset": _HISTORY,
    "admin_get_metrics_info": _STATISTICS,
    "admin_get_msgstore_stats": _STATISTICS,
    "admin_offline_broker_configure": f"{_ONE_BROKER}; admin_set_broker_read_or_write closes it",
    "admin_query_broker_memstore_info": "this node has no memory store",
    "admin_set_offset_by_time": f"{_HISTORY}; admin_set_offset takes offsets",
    "admin_transfer_current_master": "this node is the only master",
}
"""Verbs of real servers that are not served, and why."""


class Admin:
    """Serves HTTP requests, of any connection, one after the other."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def serve(self, request: HttpRequest) -> Buffers:
        """The whole answer to a whole request."""
        try:
            parameters = parameters_of(request)
        except HttpRefused as error:
            return text_answer(error.status, f"{error.message}\n")
        return json_answer(await self._call(parameters), head_only=request.method == "HEAD")

    async def _call(self, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        given = Parameters(parameters)
        try:
            route = self._route(given)
            found, unread = await self._done(route, given)
            # Retried: the rest is already done, and the same call again would be refused for that.
            await retry_while_unreachable(self._shared.services.runtime, self._shared.settings_log.save)
        except PenstockError as error:
            refused = refusal(error)
            return {"result": False, "errCode": refused.code, "errMsg": refused.message}
        said = {"result": True, "errCode": 0, "errMsg": "OK", **found}
        if unread:
            said["errMsg"] = f"{said['errMsg']}, but without any effect here: {', '.join(unread)}"
        return said

    async def _done(self, route: Route, given: Parameters) -> tuple[Mapping[str, Any], list[str]]:
        """The answer to a call, or to each of a batch, and which parameters had no effect. Raises PenstockError."""
        handler = _handler(route.handler)
        if not route.batch:
            return await handler(AdminCall(self._shared, given)), given.unread
        rows: list[Any] = []
        calls = given.each(route.batch)
        unread = set(given.unread)
        for each in calls:
            try:
                rows += (await handler(AdminCall(self._shared, each)))["data"]
            except PenstockError as error:
                rows.append(item(refusal(error), **each.about))
            unread |= set(each.unread)
        return from_master(rows), sorted(unread)

    def _route(self, given: Parameters) -> Route:
        if given.optional("callback"):
            raise _bad("callback: answers are JSON, and are not served as scripts")
        method = given.optional("method")
        if not method:
            raise _bad("Please take with method parameter!")
        if method in REFUSED:
            raise Refused(Code.BAD_REQUEST, f"{method} is not served: {REFUSED[method]}")
        route = ROUTES.get(method)
        if route is None:
            raise _bad(f"unsupported method {method[:80]}! admin_get_methods lists those that are served")
        if route.token and self._shared.options.admin_token:
            token = given.optional("confModAuthToken")
            if not token:
                raise _bad("Parameter confModAuthToken is missing or value is blank!")
            if not compare_digest(token.encode(), self._shared.options.admin_token.encode()):
                raise _bad("illegal access, unauthorized request!")
        return route


def _bad(text: str) -> Refused:
    return Refused(Code.BAD_REQUEST, f"Bad request from client, {text}")


@functools.cache
def _handler(name: str) -> AdminHandler:
    module, function = name.split(".")
    found: AdminHandler = getattr(importlib.import_module(f"{__package__}.{module}"), function)
    return found
