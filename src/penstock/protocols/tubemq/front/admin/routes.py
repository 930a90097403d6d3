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
from penstock.errors import PenstockError
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.admin.http import HttpRefused, HttpRequest, json_answer, text_answer
from penstock.protocols.tubemq.front.admin.parameters import Parameters
from penstock.protocols.tubemq.front.call import Shared
from penstock.protocols.tubemq.front.faults import Refused, refusal
from penstock.seams.framing import Buffer, Buffers
from penstock.seams.patience import patiently

__all__ = ["ROUTES", "Admin", "AdminCall", "Route"]


@dataclass(frozen=True, slots=True)
class AdminCall:
    """One call: the front's shared parts and the parameters."""

    shared: Shared
    parameters: Parameters


AdminHandler = Callable[[AdminCall], Awaitable[Mapping[str, Any]]]
"""Returns the answer without ``result``, ``errCode`` and ``errMsg`` where these say that all is well."""


class Route(NamedTuple):
    """``handler`` is "module.function" in this folder; ``token``: it changes something and needs the token."""

    handler: str
    token: bool = False


ROUTES: Final[Mapping[str, Route]] = {
    # What a master serves.
    "admin_add_authorized_consumergroup_info": Route("control.allow_group", token=True),
    "admin_add_broker_configure": Route("brokers.add", token=True),
    "admin_add_group_filtercond_info": Route("control.set_filters", token=True),
    "admin_add_group_resctrl_info": Route("rules.set_group", token=True),
    "admin_add_new_topic_record": Route("topics.add", token=True),
    "admin_add_topic_control_info": Route("control.set_topic", token=True),
    "admin_add_topic_deploy_info": Route("topics.add", token=True),
    "admin_delete_allowed_consumer_group_info": Route("control.forbid_group", token=True),
    "admin_delete_topic_deploy_info": Route("topics.delete", token=True),
    "admin_delete_topic_info": Route("topics.delete", token=True),
    "admin_get_methods": Route("status.methods"),
    "admin_modify_topic_info": Route("topics.update", token=True),
    "admin_mod_group_filtercond_info": Route("control.set_filters", token=True),
    "admin_del_group_filtercond_info": Route("control.drop_filters", token=True),
    "admin_online_broker_configure": Route("brokers.confirm", token=True),
    "admin_query_allowed_consumer_group_info": Route("control.query_allowed"),
    "admin_query_broker_configure": Route("status.broker_configure"),
    "admin_query_broker_run_status": Route("status.broker_run_status"),
    "admin_query_client_balance_group_set": Route("groups.client_balanced"),
    "admin_query_cluster_default_setting": Route("rules.query_cluster"),
    "admin_query_consume_group_detail": Route("groups.detail"),
    "admin_query_def_flow_control_rule": Route("rules.query_default"),
    "admin_query_deployed_topics": Route("topics.query_names"),
    "admin_query_group_filtercond_info": Route("control.query_filters"),
    "admin_query_group_flow_control_rule": Route("rules.query_group"),
    "admin_query_group_info_by_topic": Route("groups.by_topic"),
    "admin_query_group_resctrl_info": Route("rules.query_group"),
    "admin_query_master_group_info": Route("status.master_group"),
    "admin_query_server_version": Route("status.version"),
    "admin_query_sub_info": Route("groups.query"),
    "admin_query_topic_control_info": Route("control.query_topics"),
    "admin_query_topic_deploy_info": Route("topics.query_deployed"),
    "admin_query_topic_info": Route("topics.query"),
    "admin_rebalance_group_allocate": Route("groups.rebalance", token=True),
    "admin_redo_deleted_topic_deploy_info": Route("topics.restore", token=True),
    "admin_redo_deleted_topic_info": Route("topics.restore", token=True),
    "admin_reload_broker_configure": Route("brokers.confirm", token=True),
    "admin_remove_topic_deploy_info": Route("topics.remove", token=True),
    "admin_remove_topic_info": Route("topics.remove", token=True),
    "admin_rmv_def_flow_control_rule": Route("rules.drop_default", token=True),
    "admin_rmv_group_flow_control_rule": Route("rules.drop_group", token=True),
    "admin_set_client_balance_group_consume_from_max": Route("groups.skip_to_end", token=True),
    "admin_set_cluster_default_setting": Route("rules.set_cluster", token=True),
    "admin_set_def_flow_control_rule": Route("rules.set_default", token=True),
    "admin_set_group_flow_control_rule": Route("rules.set_group", token=True),
    "admin_set_topic_authorize_control": Route("control.set_topic", token=True),
    "admin_upd_def_flow_control_rule": Route("rules.set_default", token=True),
    "admin_upd_group_flow_control_rule": Route("rules.set_group", token=True),
    "admin_update_cluster_default_setting": Route("rules.set_cluster", token=True),
    "admin_update_topic_control_info": Route("control.set_topic", token=True),
    "admin_update_topic_deploy_info": Route("topics.update", token=True),
    # What a broker serves, without a token.
    "admin_clone_offset": Route("offsets.clone"),
    "admin_get_booked_groupname": Route("offsets.groups"),
    "admin_get_partition_reginfo": Route("status.bookings"),
    "admin_manual_set_current_offset": Route("offsets.set_one"),
    "admin_query_broker_all_consumer_info": Route("status.consumers"),
    "admin_query_consumer_regmap": Route("status.bookings"),
    "admin_query_group_offset": Route("offsets.query_one"),
    "admin_query_offset": Route("offsets.query"),
    "admin_query_pubinfo": Route("offsets.bounds"),
    "admin_rmv_offset": Route("offsets.remove"),
    "admin_set_offset": Route("offsets.set"),
    "admin_snapshot_message": Route("snapshot.messages"),
}


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
            found = await _handler(self._route(given).handler)(AdminCall(self._shared, given))
            # With patience: what was done beside it is not done again, and the same call would be told so.
            await patiently(self._shared.services.runtime, self._shared.settings_log.save)
        except PenstockError as error:
            refused = refusal(error)
            return {"result": False, "errCode": refused.code, "errMsg": refused.message}
        return {"result": True, "errCode": 0, "errMsg": "OK", **found}

    def _route(self, given: Parameters) -> Route:
        method = given.optional("method")
        if not method:
            raise _bad("Please take with method parameter!")
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
