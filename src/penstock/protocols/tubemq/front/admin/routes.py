"""Which administrative methods there are, and by whom they are served: the only place that says so.

Source: TubeMQ 2.x, HTTP interfaces of master and broker. A failure is an answer with ``result`` false and the code.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Awaitable, Callable, Mapping
from hmac import compare_digest
from typing import Any, Final, NamedTuple

from penstock._dataclasses import dataclass
from penstock.concurrency.runtime import patiently
from penstock.errors import PenstockError
from penstock.interfaces.framing import Buffer, Buffers
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.admin.answers import from_master, item
from penstock.protocols.tubemq.front.admin.http import HttpRefused, HttpRequest, json_answer, text_answer
from penstock.protocols.tubemq.front.admin.parameters import Parameters
from penstock.protocols.tubemq.front.call import Shared
from penstock.protocols.tubemq.front.faults import Refused, refusal

__all__ = ["REFUSED", "ROUTES", "Admin", "AdminCall", "Route"]


@dataclass(frozen=True, slots=True)
class AdminCall:
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
    "admin_add_authorized_consumergroup_info": Route("control.allow_group", token=True),
    "admin_add_black_consumergroup_info": Route("control.deny_group", token=True),
    "admin_add_broker_configure": Route("brokers.add", token=True),
    "admin_add_consume_group_setting": Route("rules.add_group", token=True),
    "admin_add_group_csmctrl_info": Route("control.add_record", token=True),
    "admin_add_group_filtercond_info": Route("control.set_filters", token=True),
    "admin_add_group_resctrl_info": Route("rules.add_group", token=True),
    "admin_add_new_topic_record": Route("topics.add", token=True),
    "admin_add_topic_control_info": Route("control.set_topic", token=True),
    "admin_add_topic_deploy_info": Route("topics.add", token=True),
    "admin_batch_add_broker_configure": Route("brokers.add", token=True, batch="brokerJsonSet"),
    "admin_batch_add_group_csmctrl_info": Route("control.add_record", token=True, batch="groupCsmJsonSet"),
    "admin_batch_add_group_resctrl_info": Route("rules.add_group", token=True, batch="groupResCtrlJsonSet"),
    "admin_batch_add_topic_control_info": Route("control.set_topic", token=True, batch="topicCtrlJsonSet"),
    "admin_batch_del_authorized_consumergroup_info": Route(
        "control.forbid_group", token=True, batch="groupNameJsonSet"
    ),
    "admin_batch_delete_black_consumergroup_info": Route("control.permit_group", token=True, batch="groupNameJsonSet"),
    "admin_batch_delete_group_csmctrl_info": Route("control.drop_records", token=True, batch="groupCsmJsonSet"),
    "admin_batch_update_broker_configure": Route("brokers.update", token=True, batch="brokerJsonSet"),
    "admin_batch_update_group_csmctrl_info": Route("control.update_record", token=True, batch="groupCsmJsonSet"),
    "admin_batch_update_group_resctrl_info": Route("rules.update_group", token=True, batch="groupResCtrlJsonSet"),
    "admin_batch_update_topic_control_info": Route("control.set_topic", token=True, batch="topicCtrlJsonSet"),
    "admin_batch_update_topic_deploy_info": Route("topics.update", token=True, batch="topicJsonSet"),
    "admin_bath_add_authorized_consumergroup_info": Route("control.allow_group", token=True, batch="groupNameJsonSet"),
    "admin_bath_add_black_consumergroup_info": Route("control.deny_group", token=True, batch="groupNameJsonSet"),
    "admin_bath_add_broker_configure": Route("brokers.add", token=True, batch="brokerJsonSet"),
    "admin_bath_add_consume_group_setting": Route("rules.add_group", token=True, batch="groupNameJsonSet"),
    "admin_bath_add_group_filtercond_info": Route("control.set_filters", token=True, batch="filterCondJsonSet"),
    "admin_bath_add_new_topic_record": Route("topics.add", token=True, batch="topicJsonSet"),
    "admin_bath_add_topic_authorize_control": Route("control.authorize", token=True, batch="topicJsonSet"),
    "admin_bath_add_topic_deploy_info": Route("topics.add", token=True, batch="topicJsonSet"),
    "admin_bath_mod_group_filtercond_info": Route("control.set_filters", token=True, batch="filterCondJsonSet"),
    "admin_del_consume_group_setting": Route("rules.drop_group", token=True),
    "admin_del_group_filtercond_info": Route("control.drop_filters", token=True),
    "admin_delete_allowed_consumer_group_info": Route("control.forbid_group", token=True),
    "admin_delete_black_consumergroup_info": Route("control.permit_group", token=True),
    "admin_delete_group_csmctrl_info": Route("control.drop_records", token=True),
    "admin_delete_group_resctrl_info": Route("rules.drop_group", token=True),
    "admin_delete_topic_authorize_control": Route("control.unauthorize", token=True),
    "admin_delete_topic_control_info": Route("control.drop_topic", token=True),
    "admin_delete_topic_deploy_info": Route("topics.delete", token=True),
    "admin_delete_topic_info": Route("topics.delete", token=True),
    "admin_get_methods": Route("status.methods"),
    "admin_mod_group_filtercond_info": Route("control.set_filters", token=True),
    "admin_modify_topic_info": Route("topics.update", token=True),
    "admin_online_broker_configure": Route("brokers.confirm", token=True),
    "admin_query_allowed_consumer_group_info": Route("control.query_allowed"),
    "admin_query_black_consumer_group_info": Route("control.query_denied"),
    "admin_query_booked_csmctrl_groups": Route("control.query_groups"),
    "admin_query_booked_resctrl_groups": Route("rules.query_names"),
    "admin_query_broker_configure": Route("status.broker_configure"),
    "admin_query_broker_run_status": Route("status.broker_run_status"),
    "admin_query_broker_topic_config_info": Route("topics.query_by_broker"),
    "admin_query_client_balance_group_set": Route("groups.client_balanced"),
    "admin_query_cluster_default_setting": Route("rules.query_cluster"),
    "admin_query_cluster_topic_view": Route("topics.query_view"),
    "admin_query_consume_group_detail": Route("groups.detail"),
    "admin_query_consume_group_setting": Route("rules.query_setting"),
    "admin_query_def_flow_control_rule": Route("rules.query_default"),
    "admin_query_deployed_broker_ids": Route("topics.query_brokers"),
    "admin_query_deployed_topics": Route("topics.query_names"),
    "admin_query_group_csmctrl_info": Route("control.query_records"),
    "admin_query_group_filtercond_info": Route("control.query_filters"),
    "admin_query_group_flow_control_rule": Route("rules.query_group"),
    "admin_query_group_info_by_topic": Route("groups.by_topic"),
    "admin_query_group_resctrl_info": Route("rules.query_resources"),
    "admin_query_master_group_info": Route("status.master_group"),
    "admin_query_server_version": Route("status.version"),
    "admin_query_sub_info": Route("groups.query"),
    "admin_query_topic_authorize_control": Route("control.query_authorize"),
    "admin_query_topic_broker_config_info": Route("topics.query_by_topic"),
    "admin_query_topic_control_info": Route("control.query_topics"),
    "admin_query_topic_deploy_configure": Route("topics.query_configured"),
    "admin_query_topic_deploy_info": Route("topics.query_deployed"),
    "admin_query_topic_info": Route("topics.query"),
    "admin_rebalance_group_allocate": Route("groups.rebalance", token=True),
    "admin_redo_deleted_topic_deploy_info": Route("topics.restore", token=True),
    "admin_redo_deleted_topic_info": Route("topics.restore", token=True),
    "admin_release_broker_autoforbidden_status": Route("brokers.confirm", token=True),
    "admin_reload_broker_configure": Route("brokers.confirm", token=True),
    "admin_remove_topic_deploy_info": Route("topics.remove", token=True),
    "admin_remove_topic_info": Route("topics.remove", token=True),
    "admin_rmv_def_flow_control_rule": Route("rules.drop_default", token=True),
    "admin_rmv_group_flow_control_rule": Route("rules.drop_group", token=True),
    "admin_set_broker_read_or_write": Route("brokers.open_or_close", token=True),
    "admin_set_client_balance_group_consume_from_max": Route("groups.skip_to_end", token=True),
    "admin_set_cluster_default_setting": Route("rules.set_cluster", token=True),
    "admin_set_def_flow_control_rule": Route("rules.set_default", token=True),
    "admin_set_group_flow_control_rule": Route("rules.set_group", token=True),
    "admin_set_topic_authorize_control": Route("control.authorize", token=True),
    "admin_upd_consume_group_setting": Route("rules.update_group", token=True),
    "admin_upd_def_flow_control_rule": Route("rules.set_default", token=True),
    "admin_upd_group_flow_control_rule": Route("rules.set_group", token=True),
    "admin_update_broker_configure": Route("brokers.update", token=True),
    "admin_update_cluster_default_setting": Route("rules.set_cluster", token=True),
    "admin_update_group_csmctrl_info": Route("control.update_record", token=True),
    "admin_update_group_resctrl_info": Route("rules.update_group", token=True),
    "admin_update_topic_control_info": Route("control.set_topic", token=True),
    "admin_update_topic_deploy_info": Route("topics.update", token=True),
    # What a broker serves, without a token.
    "admin_clone_offset": Route("offsets.clone"),
    "admin_get_booked_groupname": Route("offsets.groups"),
    "admin_get_group_detail_info": Route("status.consumers"),
    "admin_get_partition_reginfo": Route("status.bookings"),
    "admin_manual_set_current_offset": Route("offsets.set_one"),
    "admin_query_broker_all_consumer_info": Route("status.consumers"),
    "admin_query_broker_all_store_info": Route("status.stores"),
    "admin_query_consumer_regmap": Route("status.bookings"),
    "admin_query_group": Route("offsets.groups"),
    "admin_query_group_offset": Route("offsets.query_one"),
    "admin_query_offset": Route("offsets.query"),
    "admin_query_pubinfo": Route("offsets.bounds"),
    "admin_rmv_offset": Route("offsets.remove"),
    "admin_set_offset": Route("offsets.set"),
    "admin_snapshot_message": Route("snapshot.messages"),
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
    """Serves one HTTP request after the other, whoever it comes from."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared

    async def serve(self, data: Buffer) -> Buffers:
        """The whole answer to a whole request."""
        try:
            request = HttpRequest.parse(data)
        except HttpRefused as error:
            return [text_answer(error.status, f"{error.message}\n")]
        answer = json_answer(await self._call(request.parameters))
        return [answer.partition(b"\r\n\r\n")[0] + b"\r\n\r\n" if request.method == "HEAD" else answer]

    async def _call(self, parameters: Mapping[str, str]) -> Mapping[str, Any]:
        given = Parameters(parameters)
        try:
            route = self._route(given)
            found, unread = await self._done(route, given)
            # With patience: what was done beside it is not done again, and the same call would be told so.
            await patiently(self._shared.services.runtime, self._shared.settings_log.save)
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
