"""TubeMQ's web API: each verb, called at a real server and at a node, has the same outcome and fields."""

from __future__ import annotations

import json
import urllib.parse
import urllib.request
from typing import Any

import pytest

from penstock import Producer
from penstock.protocols.tubemq.server.web_api.routes import REFUSED, ROUTES
from penstock.testing import Broker
from tests.interop.peers.tubemq_fixtures import NewCluster
from tests.unit.tubemq_front.test_web_verbs import ADD, OBEYED
from tools.peers import tubemq

pytestmark = pytest.mark.interop

# Who changed what and when is not kept; nor is what tunes a broker's stores, its flow control and its ports.
NOT_KEPT = {
    *("createUser", "createDate", "modifyUser", "modifyDate", "dataVersionId", "serialId"),
    *("unflushThreshold", "unflushInterval", "unflushDataHold", "dataPath", "dataStoreType"),
    *("memCacheMsgSizeInMB", "memCacheMsgCntInK", "memCacheFlushIntvl", "brokerTLSPort"),
    *("lastRegTime", "receivedFrom", "curDataLimitInM", "curFreqLimit", "isSupportLimit"),
    *("sentUnit", "sentUnitSec", "totalSentSec", "totalSentMin", "acceptPublish", "acceptSubscribe"),
    *("numPartitions", "numTopicStores", "deletePolicy"),
}
# Here it is as it was asked for, and that is a success; a real server says that it is there, used or unchanged.
UNCHANGED_IS_A_NO = {
    "admin_add_authorized_consumergroup_info",
    "admin_add_group_resctrl_info",
    "admin_add_topic_control_info",
    "admin_batch_add_group_resctrl_info",
    "admin_batch_add_topic_control_info",
    "admin_batch_update_broker_configure",
    "admin_bath_add_authorized_consumergroup_info",
    "admin_bath_add_black_consumergroup_info",
    "admin_del_consume_group_setting",
    "admin_delete_topic_control_info",
    "admin_online_broker_configure",
    "admin_release_broker_autoforbidden_status",
    "admin_rmv_def_flow_control_rule",
    "admin_update_broker_configure",
}


def outcome(answer: dict[str, Any]) -> tuple[object, ...]:
    rows = answer.get("data") or answer.get("dataSet") or []
    said = [(row["success"], row["errCode"]) for row in rows if isinstance(row, dict) and "success" in row]
    return answer["result"], answer["errCode"], said


def names(found: object) -> set[str]:
    """The fields of an answer, at any depth."""
    if isinstance(found, dict):
        return set(found) | {name for value in found.values() for name in names(value)}
    return {name for value in found for name in names(value)} if isinstance(found, list) else set()


def test_each_verb_has_the_outcome_and_the_fields_that_it_has_at_a_real_server(tubemq_own: NewCluster) -> None:
    own = tubemq_own()
    own.create_topics("demo", stores=2)
    of_master = {row["method"] for row in own.master.web("admin_get_methods")["data"]}
    of_broker = {row["method"] for row in own.broker.web("admin_get_methods")["dataSet"]}
    assert (len(of_master), len(of_broker)) == (105, 26)
    assert of_master | of_broker == {*ROUTES, *REFUSED}
    with Broker("memory:", listen=["tubemq://127.0.0.1:0"]) as node:

        def ours(verb: str, **parameters: object) -> dict[str, Any]:
            query = urllib.parse.urlencode({"method": verb, **parameters})
            with urllib.request.urlopen(f"http://{node.url('tubemq')[9:]}/webapi.htm?{query}", timeout=10) as answer:
                found: dict[str, Any] = json.loads(answer.read())
            return found

        ours("admin_add_topic_deploy_info", topicName="demo", brokerId=1, numTopicStores=2, **ADD)
        for url in (own.url, node.url("tubemq")):
            with Producer(url) as producer:
                producer.send("demo", b"body", partition=0, headers=[("a", b"b")]).result()
        for verb, parameters in OBEYED.items():
            if verb in {"admin_clone_offset", "admin_query_offset"}:
                continue  # a real broker knows a group some seconds after its offsets were set
            side = own.master if verb in of_master else own.broker
            real, here = side.web(verb, confModAuthToken=tubemq.TOKEN, **parameters), ours(verb, **parameters)
            if verb not in UNCHANGED_IS_A_NO:
                assert outcome(here) == outcome(real), verb
            assert names(real) - names(here) <= NOT_KEPT, verb
