"""What TubeMQ's own clients call our options: Java's names and Go's, a row each; and what of theirs means nothing here.

Names are compared as in `penstock.config.fields`, so case does not matter. Sources: Apache InLong TubeMQ
2.x, ``TubeClientConfig``, ``ConsumerConfig`` (Java) and the address strings of the Go client.
What must not live here: values, bounds, defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.config.fields import BOOTSTRAP, TOPICS, Spelling

__all__ = ["TUBE_MEANINGLESS", "TUBE_SPELLINGS"]


def _row(ours: str, *theirs: str) -> Spelling:
    return Spelling(ours, also=theirs)


TUBE_SPELLINGS: Final = (
    _row(BOOTSTRAP, "masterAddrInfo", "masters"),
    _row(TOPICS, "topic"),
    _row("group", "consumerGroup"),
    _row("rpc_timeout_ms", "rpcTimeoutMs", "readTimeout"),
    _row("heartbeat_period_ms", "heartbeatPeriodMs", "heartbeatInterval"),
    _row("heartbeat_retries", "maxHeartBeatRetryTimes", "heartbeatMaxRetryTimes"),
    _row("heartbeat_after_fail_ms", "heartbeatPeriodAfterFail", "heartbeatAfterFail"),
    _row("register_retries", "maxRegisterRetryTimes"),
    _row("register_backoff_ms", "regFailWaitPeriodMs"),
    _row("user", "usrName", "authUserName"),
    _row("password", "usrPassWord", "authPassword"),
    _row("authenticate", "enableUserAuthentic", "authEnable"),
    _row("consume_position", "consumePosition"),
    _row("bound_consume", "boundConsume"),
    _row("session_key", "sessionKey"),
    _row("source_count", "sourceCount"),
    _row("node_id", "nodeId"),
    _row("consumer_id", "consumerId"),
    _row("select_big", "selectBig"),
    _row("start_offsets", "requiredPartition", "partitionOffset"),
    _row("confirm_locally", "pullConfirmInLocal"),
    _row("confirm_timeout_ms", "pullProtectConfirmTimeoutMs", "maxConfirmWait"),
    _row("rebalance_confirm_wait_ms", "pullRebConfirmWaitPeriodMs", "rebConfirmWait"),
    _row("rollback_if_confirm_timeout", "pullRebConfirmTimeoutRollBack", "rollbackIfConfirmTimeout"),
    _row("not_found_wait_ms", "msgNotFoundWaitPeriodMs", "msgNotFoundWait"),
    _row("report_interval_beats", "maxSubInfoReportIntvlTimes", "maxSubInfoReportInterval"),
    _row("metadata_check_ms", "partMetaInfoCheckPeriodMs"),
    _row("query_priority", "qryPriorityId"),
    _row("link_stats_duration_ms", "linkStatsDurationMs"),
    _row("link_forbidden_duration_ms", "linkStatsForbiddenDurationMs", "ForbiddenDurationMs"),
    _row("link_max_failures", "linkStatsMaxAllowedFailTimes", "MaxAllowedFailTimes"),
    _row("link_max_forbidden_rate", "linkStatsMaxForbiddenRate", "MaxForbiddenRate"),
    _row("unavailable_broker_ms", "unAvailableFbdDurationMs"),
    _row("max_sent_forbidden_rate", "maxSentForbiddenRate"),
    _row("max_forbidden_check_ms", "maxForbiddenCheckDuration"),
    _row("link_max_delayed", "linkMaxAllowedDelayedMsgCount"),
    _row("session_max_delayed", "sessionMaxAllowedDelayedMsgCount"),
    _row("tls", "tlsEnable"),
    _row("tls_ca_file", "CACertFile"),
    _row("tls_certificate_file", "tlsCertFile"),
    _row("tls_key_file", "tlsKeyFile"),
    _row("tls_server_name", "tlsServerName"),
)

TUBE_MEANINGLESS: Final[Mapping[str, str]] = {
    "maxpartcheckperiod": "poll() takes the longest time to wait as its argument",
    "pullconsumereadywaitperiodms": "poll() takes the longest time to wait as its argument",
    "partcheckslice": "poll() wakes up when something is there; nothing is looked at in slices",
    "pullconsumereadychkslicems": "poll() wakes up when something is there; nothing is looked at in slices",
    "shutdownrebalancewaitperiodms": "closing gives all partitions back at once; no rebalance is waited for",
    "shutdownrebwait": "closing gives all partitions back at once; no rebalance is waited for",
    "logpath": "log records go to Python's logging",
    "loglevel": "log records go to Python's logging",
    "log_num": "log records go to Python's logging",
    "log_size": "log records go to Python's logging",
    "log_path": "log records go to Python's logging",
    "log_level": "log records go to Python's logging",
    "dns_xfs_period_ms": "names are looked up whenever a connection is made",
    "timer_threads": "there is one event loop and no pool of threads",
    "network_threads": "there is one event loop and no pool of threads",
    "signal_threads": "there is one event loop and no pool of threads",
    "pushfetchthreadcnt": "there is no push consumer: poll() in threads of yours",
    "truststorepath": "give the authority's certificates as a PEM file: tls_ca_file (keytool -exportcert -rfc)",
    "truststorepassword": "give the authority's certificates as a PEM file: tls_ca_file (keytool -exportcert -rfc)",
}
"""Options of theirs that we know and that would change nothing here: why."""
