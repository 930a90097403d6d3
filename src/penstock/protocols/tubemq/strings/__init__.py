"""What TubeMQ says in strings: brokers, partitions, subscriptions, topics, filters. Parsed strictly, formatted exactly.

Separators are ``#`` between segments, ``:`` between parts, ``,`` in lists, ``@`` before a group, ``=`` before a value;
names contain none of them. Whatever does not follow its format is a ProtocolViolation that quotes it. Source: Apache
InLong TubeMQ 2.x, ``DataConverterUtil``, ``BrokerInfo``, ``Partition``, ``SubscribeInfo``.

Partitions are ``model.Partition`` with the broker's id, in decimal, as ``node``; brokers are ``model.Node`` named so.
"""

from penstock.protocols.tubemq.strings.brokers import BROKER_PORT as BROKER_PORT
from penstock.protocols.tubemq.strings.brokers import BROKER_TLS_PORT as BROKER_TLS_PORT
from penstock.protocols.tubemq.strings.brokers import BrokerIdentity as BrokerIdentity
from penstock.protocols.tubemq.strings.brokers import format_broker as format_broker
from penstock.protocols.tubemq.strings.brokers import parse_broker as parse_broker
from penstock.protocols.tubemq.strings.brokers import parse_broker_identity as parse_broker_identity
from penstock.protocols.tubemq.strings.partitions import Held as Held
from penstock.protocols.tubemq.strings.partitions import Located as Located
from penstock.protocols.tubemq.strings.partitions import format_failure as format_failure
from penstock.protocols.tubemq.strings.partitions import format_held as format_held
from penstock.protocols.tubemq.strings.partitions import format_key as format_key
from penstock.protocols.tubemq.strings.partitions import format_located as format_located
from penstock.protocols.tubemq.strings.partitions import format_required as format_required
from penstock.protocols.tubemq.strings.partitions import format_topic_holdings as format_topic_holdings
from penstock.protocols.tubemq.strings.partitions import parse_failure as parse_failure
from penstock.protocols.tubemq.strings.partitions import parse_held as parse_held
from penstock.protocols.tubemq.strings.partitions import parse_key as parse_key
from penstock.protocols.tubemq.strings.partitions import parse_located as parse_located
from penstock.protocols.tubemq.strings.partitions import parse_required as parse_required
from penstock.protocols.tubemq.strings.partitions import parse_topic_holdings as parse_topic_holdings
from penstock.protocols.tubemq.strings.topics import Placement as Placement
from penstock.protocols.tubemq.strings.topics import Published as Published
from penstock.protocols.tubemq.strings.topics import Subscribable as Subscribable
from penstock.protocols.tubemq.strings.topics import format_published as format_published
from penstock.protocols.tubemq.strings.topics import format_subscribable as format_subscribable
from penstock.protocols.tubemq.strings.topics import format_topic_filter as format_topic_filter
from penstock.protocols.tubemq.strings.topics import parse_published as parse_published
from penstock.protocols.tubemq.strings.topics import parse_subscribable as parse_subscribable
from penstock.protocols.tubemq.strings.topics import parse_topic_filter as parse_topic_filter

__all__ = [
    "BROKER_PORT",
    "BROKER_TLS_PORT",
    "BrokerIdentity",
    "Held",
    "Located",
    "Placement",
    "Published",
    "Subscribable",
    "format_broker",
    "format_failure",
    "format_held",
    "format_key",
    "format_located",
    "format_published",
    "format_required",
    "format_subscribable",
    "format_topic_filter",
    "format_topic_holdings",
    "parse_broker",
    "parse_broker_identity",
    "parse_failure",
    "parse_held",
    "parse_key",
    "parse_located",
    "parse_published",
    "parse_required",
    "parse_subscribable",
    "parse_topic_filter",
    "parse_topic_holdings",
]
