"""What RocketMQ's own clients call our options, a row each; and what of theirs means nothing here.

Names are compared as in `penstock.config.spellings`, so case does not matter.
Source: Apache RocketMQ 4.9 and 5.4, ``ClientConfig``, ``DefaultMQProducer``, ``DefaultMQPushConsumer``,
``DefaultLitePullConsumer``. What must not live here: values, bounds, defaults.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from penstock.config.spellings import BOOTSTRAP, TOPICS, Spelling

__all__ = ["ROCKET_MEANINGLESS", "ROCKET_SPELLINGS", "ROCKET_VALUES"]


def _row(ours: str, *theirs: str) -> Spelling:
    return Spelling(ours, also=theirs)


ROCKET_SPELLINGS: Final = (
    _row(BOOTSTRAP, "namesrvAddr", "namesrv.addr", "nameServer", "nameSrv", "nameServerAddr"),
    _row(TOPICS, "topic"),
    _row("group", "consumerGroup"),
    _row("producer_group", "producerGroup"),
    _row("access_key", "accessKey"),
    _row("secret_key", "secretKey"),
    _row("instance_name", "instanceName"),
    _row("heartbeat_broker_ms", "heartbeatBrokerInterval"),
    _row("metadata_max_age_ms", "pollNameServerInterval"),
    _row("auto_commit_interval_ms", "persistConsumerOffsetInterval", "autoCommitIntervalMillis"),
    _row("enable_auto_commit", "autoCommit"),
    _row("request_timeout_ms", "sendMsgTimeout", "mqClientApiTimeout"),
    _row("tls", "useTLS", "tls.enable"),
    _row("compress_over_bytes", "compressMsgBodyOverHowmuch"),
    _row("compress_type", "compressType", "message.compressType"),
    _row("max_request_bytes", "maxMessageSize"),
    _row("template_topic", "createTopicKey"),
    _row("topic_queues", "defaultTopicQueueNums"),
    _row("avoid_slow_brokers", "sendLatencyFaultEnable"),
    _row("message_model", "messageModel"),
    _row("offsets_folder", "rocketmq.client.localOffsetStoreDir", "localOffsetStoreDir"),
    _row("tags", "subExpression", "subscription"),
    _row("allocation", "allocateMessageQueueStrategy"),
    _row("auto_offset_reset", "consumeFromWhere"),
    _row("max_reconsume_times", "maxReconsumeTimes"),
    _row("pull_batch_size", "pullBatchSize"),
    _row("suspend_ms", "brokerSuspendMaxTimeMillis"),
    _row("max_poll_records", "consumeMessageBatchMaxSize"),
)

ROCKET_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "auto_offset_reset": {
        "consume_from_last_offset": "latest",
        "consume_from_last_offset_and_from_min_when_boot_first": "latest",
        "consume_from_max_offset": "latest",
        "consume_from_first_offset": "earliest",
        "consume_from_min_offset": "earliest",
    },
    "compress_type": {"1": "lz4", "2": "zstd", "3": "zlib"},
}

_THREADS: Final = "there is one event loop and no pool of threads: poll() in threads of yours"
_FLOW: Final = "fetch_buffer_bytes bounds what is held ahead of you, in bytes and over all queues"
_RETRIES: Final = "delivery_timeout_ms bounds sending with all its attempts, on whichever broker"

ROCKET_MEANINGLESS: Final[Mapping[str, str]] = {
    "consumethreadmin": _THREADS,
    "consumethreadmax": _THREADS,
    "clientcallbackexecutorthreads": _THREADS,
    "pullthreadnums": _THREADS,
    "pullthresholdforqueue": _FLOW,
    "pullthresholdsizeforqueue": _FLOW,
    "pullthresholdfortopic": _FLOW,
    "pullthresholdsizefortopic": _FLOW,
    "pullthresholdforall": _FLOW,
    "consumeconcurrentlymaxspan": _FLOW,
    "pullinterval": "reads follow each other at once; take fewer records a poll, or pause()",
    "retrytimeswhensendfailed": _RETRIES,
    "retrytimeswhensendasyncfailed": _RETRIES,
    "retryanotherbrokerwhennotstoreok": _RETRIES,
    "vipchannelenabled": "brokers' second port brings nothing: requests of one client do not wait for others'",
    "postsubscriptionwhenpull": "every read names its subscription",
    "consumetimestamp": "offsets_for_times() finds where a time begins, seek() goes there",
    "enablemsgtrace": "traces are not written",
    "customizedtracetopic": "traces are not written",
    "unitname": "units are not spoken of",
    "namespace": "write the namespace into the names: namespace%topic",
    "compresslevel": "bodies are compressed as Java does by itself, at level 5",
    "message_compresslevel": "bodies are compressed as Java does by itself, at level 5",
    "decodereadbody": "bodies are always inflated",
}
"""Options of theirs that we know and that would change nothing here: why."""
