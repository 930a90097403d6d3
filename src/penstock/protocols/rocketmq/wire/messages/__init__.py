"""All headers and bodies of the protocol as declared data, and their reader and writer."""

from __future__ import annotations

from penstock.protocols.rocketmq.wire.messages.cluster import *  # noqa: F403
from penstock.protocols.rocketmq.wire.messages.declarations import NoFields as NoFields
from penstock.protocols.rocketmq.wire.messages.declarations import header_reader as header_reader
from penstock.protocols.rocketmq.wire.messages.declarations import header_writer as header_writer
from penstock.protocols.rocketmq.wire.messages.declarations import read_body as read_body
from penstock.protocols.rocketmq.wire.messages.declarations import read_fields as read_fields
from penstock.protocols.rocketmq.wire.messages.declarations import write_body as write_body
from penstock.protocols.rocketmq.wire.messages.declarations import write_fields as write_fields
from penstock.protocols.rocketmq.wire.messages.members import *  # noqa: F403
from penstock.protocols.rocketmq.wire.messages.queues import *  # noqa: F403
