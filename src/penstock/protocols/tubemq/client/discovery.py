"""Discovery: asking a master for topics' partitions without being a producer or a group's member for long.

Only clients that balance themselves are told about partitions, so we become one for three requests: register, ask,
close; in a group of our own, because members of one group must want the same topics. Topics nobody deployed make the
whole registration fail; the answer names them, and it is repeated without them. Where groups need permission (450, 455)
the producers' way is taken: it needs none, but leaves out what is closed for writing.
Source: Apache InLong TubeMQ 2.x, client-balanced consumers (methods 20, 22, 6).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from penstock.errors import ServerError
from penstock.protocols.tubemq.client.identity import Identity
from penstock.protocols.tubemq.client.masters import Masters
from penstock.protocols.tubemq.client.placements import Placements
from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.messages import (
    ClientSubRepInfo,
    CloseRequestC2M,
    GetPartMetaRequestC2M,
    RegisterRequestC2MV2,
)
from penstock.protocols.tubemq.methods import BALANCED_REGISTER, CONSUMER_CLOSE, PARTITION_META

__all__ = ["discover"]

_UNKNOWN = -2
_NAMED = re.compile(r"\[\[(.*)\]\]")


async def discover(
    masters: Masters, identity: Identity, placements: Placements, topics: Collection[str], group: str
) -> None:
    """Bring ``placements`` up to date about ``topics``. Raises ServerError, ConnectionLost, RequestTimeout."""
    wanted = sorted(topics)
    client_id = identity.consumer_id(group)
    while wanted:
        try:
            answer = await masters.call(BALANCED_REGISTER, _register(identity, client_id, group, wanted))
        except ServerError as error:
            if error.code != Code.TOPIC_NOT_DEPLOYED:
                raise
            missing = _missing(error.message, wanted)
            placements.forget(missing)
            if len(wanted) > 1 and len(missing) == len(wanted):
                for topic in wanted:  # the text did not say which
                    await discover(masters, identity, placements, [topic], group)
                return
            wanted = [topic for topic in wanted if topic not in missing]
            continue
        identity.note_token(answer.authorized_info)
        placements.note_brokers(answer.broker_config_list)
        await _ask(masters, identity, placements, client_id, group, wanted)
        return


async def _ask(
    masters: Masters, identity: Identity, placements: Placements, client_id: str, group: str, wanted: Sequence[str]
) -> None:
    try:
        meta = await masters.call(
            PARTITION_META,
            GetPartMetaRequestC2M(
                client_id=client_id,
                group_name=group,
                broker_config_id=_UNKNOWN,
                topic_meta_info_id=_UNKNOWN,
                auth_info=identity.master_certificate(),
            ),
        )
    finally:
        closing = CloseRequestC2M(client_id=client_id, group_name=group, auth_info=identity.master_certificate())
        await masters.ask(CONSUMER_CLOSE, closing)
    placements.note_brokers(meta.broker_config_list)
    placements.forget(wanted)
    placements.note_subscribable(meta.topic_meta_info_list)


def _register(identity: Identity, client_id: str, group: str, topics: Sequence[str]) -> RegisterRequestC2MV2:
    return RegisterRequestC2MV2(
        client_id=client_id,
        group_name=group,
        host_name=identity.host,
        source_count=_UNKNOWN,
        node_id=_UNKNOWN,
        topic_list=topics,
        sub_rep_info=ClientSubRepInfo(
            broker_config_id=_UNKNOWN, topic_meta_info_id=_UNKNOWN, report_sub_info=False, part_sub_info=()
        ),
        auth_info=identity.master_certificate(),
    )


def _missing(text: str, wanted: Sequence[str]) -> list[str]:
    """Which topics a refusal names; all where it does not say."""
    found = _NAMED.search(text)
    named = {name.strip() for name in found[1].split(",")} if found else set()
    return [topic for topic in wanted if topic in named] or list(wanted)
