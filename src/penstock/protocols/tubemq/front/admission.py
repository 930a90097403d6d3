"""Whether a group may read what it asks for: the topics' consume control, where an operator has turned it on.

Source: TubeMQ 2.x master, codes 450 and 455. Topics without such control are open to every group.
"""

from __future__ import annotations

from penstock.protocols.tubemq.error_codes import Code
from penstock.protocols.tubemq.front.faults import Refused
from penstock.protocols.tubemq.front.master.terms import Terms
from penstock.protocols.tubemq.front.settings import Settings

__all__ = ["admit"]


def admit(settings: Settings, group: str, terms: Terms) -> None:
    """Raise Refused for a group, or for filters, that a controlled topic does not let in."""
    for topic in sorted(terms.topics):
        if not settings.topic(topic).controlled:
            continue
        known = settings.group(group)
        allowed = known.allowed.get(topic)
        if allowed is None or topic in known.denied:
            raise Refused(
                Code.CONSUME_GROUP_FORBIDDEN, f"[Restricted Group] {group} is not allowed to consume topic {topic}"
            )
        wanted = terms.conditions.get(topic, frozenset())
        if allowed and (not wanted or not wanted <= frozenset(allowed)):
            raise Refused(
                Code.CONSUME_CONTENT_FORBIDDEN,
                f"[Restricted Group] {group} may consume topic {topic} only with filter items {sorted(allowed)}",
            )
