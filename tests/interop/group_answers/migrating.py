"""Scripts of groups that are converted while their members are at work: from one protocol to the other, and back.

Topics have six partitions, so that two members and three have shares of one size, whoever is asked first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from penstock.protocols.kafka.wire.consumer_protocol import (
    MemberAssignment,
    Subscription,
    TopicPartitions,
    write_assignment,
    write_subscription,
)
from penstock.protocols.kafka.wire.groups import LeaveGroupRequest, LeaveGroupRequestMember
from tests.interop.group_answers.asking import Asking, Member
from tests.interop.group_answers.beaters import AWAY, Beater, beater, described, settled

THEIRS = {"group.consumer.assignment.interval.ms": "0", "group.initial.rebalance.delay.ms": "0"}
PARTITIONS = 6
ALL = range(PARTITIONS)


def owning(asking: Asking, owned: Sequence[int], *, version: int = 3, **given: Any) -> bytes:
    """What a member says of itself when it joins."""
    held = [TopicPartitions(topic=asking.topic, partitions=owned)] if owned else []
    return write_subscription(Subscription(topics=(asking.topic,), owned_partitions=held, **given), version)


def share(asking: Asking, numbers: Sequence[int], **given: Any) -> bytes:
    parts = [TopicPartitions(topic=asking.topic, partitions=numbers)]
    return write_assignment(MemberAssignment(assigned_partitions=parts, **given))


async def rejoin(member: Member, owned: Sequence[int], **given: Any) -> Any:
    protocols = [("cooperative-sticky", owning(member.asking, owned, **given))]
    return await member.join(protocols=protocols)


async def alone(asking: Asking, name: str = "x", instance: str | None = None, **given: Any) -> Member:
    """A group of one member of the older protocol, that has everything."""
    protocols = [("cooperative-sticky", owning(asking, (), **given))]
    member = await asking.member(name, instance, protocols=protocols)
    await (await member.enter())
    await member.sync(assignments={member.id: share(asking, ALL)})
    return member


async def there_and_back(asking: Asking) -> None:
    """A newer member joins an older one at work, another older one comes, and the newer one leaves."""
    await settled(asking)
    asking.phase = "older"
    one = await alone(asking)
    two = await beater(asking, "c")
    await two.beat(member_epoch=1)
    await two.beat(member_epoch=-1)
    asking.phase = "converted"
    await two.join()
    await described(asking, one.wire)
    await one.sync()
    await one.commit(1)
    await one.heartbeat()
    await one.heartbeat(generation_id=one.generation + 1)
    await one.heartbeat(member_id="y")
    await one.heartbeat(member_id="c", generation_id=2)
    asking.phase = "joins again"
    await rejoin(one, ALL)
    await one.heartbeat()
    await one.sync(generation_id=one.generation + 1)
    await one.sync(protocol_name="range")
    await one.sync(protocol_type="connect")
    await one.sync()
    await described(asking, one.wire)
    await two.beat()
    asking.phase = "has given up"
    await rejoin(one, [0, 1, 2])
    await one.heartbeat()
    await one.sync()
    await one.sync()
    await one.heartbeat()
    await two.beat([])
    await two.beat([3, 4, 5])
    await described(asking, one.wire)
    asking.phase = "commits"
    for version in (8, 9, 10):
        await one.commit(2, version)
    await one.commit(3, generation_id_or_member_epoch=one.generation - 1)
    await one.commit(3, generation_id_or_member_epoch=one.generation + 1)
    await one.commit(3, member_id="y")
    await two.commit(4)
    await two.fetch(member_id=one.id, member_epoch=one.generation)
    await two.fetch(member_id=one.id, member_epoch=one.generation + 1)
    await _third(asking, one, two)


async def _third(asking: Asking, one: Member, two: Beater) -> None:
    asking.phase = "a third"
    three = await asking.member("y", protocols=[("range", owning(asking, ()))])
    await three.join()
    await three.join(protocol_type="connect")
    three.protocols = [("cooperative-sticky", owning(asking, ()))]
    three.id = ""
    await three.join()
    await three.join()
    await three.heartbeat()
    await three.sync()
    await one.heartbeat()
    await rejoin(one, [0, 1, 2])
    await one.sync()
    await rejoin(one, [0, 1])
    await one.sync()
    await two.beat([3, 4, 5])
    await two.beat([3, 4])
    await three.heartbeat()
    await rejoin(three, [])
    await three.heartbeat()
    await three.sync()
    await described(asking, one.wire)
    for each in (one, three):
        await each.heartbeat()
    await two.beat([3, 4])
    asking.phase = "back"
    await two.leave()
    await described(asking, one.wire)
    await one.heartbeat()
    await three.heartbeat()
    await two.beat([3, 4])
    await one.commit(5)
    await three.leave()
    await rejoin(one, [0, 1])
    await described(asking, one.wire)


async def static(asking: Asking) -> None:
    """Members with names that stay change their protocol, one by one."""
    await settled(asking)
    asking.phase = "older"
    one = await alone(asking, "x", "i")
    two = await beater(asking, "b", "i")
    asking.phase = "upgraded"
    await two.join()
    await described(asking, one.wire)
    await one.heartbeat()
    await one.sync()
    await one.commit(1)
    await two.beat(ALL)
    asking.phase = "another"
    three = await beater(asking, "c", "j")
    await three.join()
    await two.beat([0, 1, 2])
    await three.beat([])
    await three.beat([3, 4, 5])
    asking.phase = "downgraded, one"
    four = await asking.member("y", "i", protocols=[("cooperative-sticky", owning(asking, ()))])
    await four.join(member_id="z")
    await four.join()
    await two.beat([0, 1, 2])
    await four.sync()
    await four.heartbeat()
    await described(asking, one.wire)
    await four.join(member_id="z")
    asking.phase = "away"
    await three.leave(AWAY)
    await four.heartbeat()
    await described(asking, one.wire)
    asking.phase = "downgraded, all"
    five = await asking.member("z", "j", protocols=[("cooperative-sticky", owning(asking, ()))])
    await five.join()
    await described(asking, one.wire)
    await five.sync()
    await four.heartbeat()
    await five.heartbeat()
    await three.beat([3, 4, 5])
    await described(asking, one.wire)
    asking.phase = "upgraded again"
    six = await beater(asking, "d", "j")
    await six.join()
    await four.heartbeat()
    await five.heartbeat()
    await described(asking, one.wire)


async def leaving(asking: Asking) -> None:
    """Who leaves a mixed group by the older protocol, and what becomes of it."""
    await settled(asking)
    one = await alone(asking)
    two = await beater(asking, "c")
    await two.join()
    asking.phase = "the older one leaves"
    await one.leave(5, (one.id, None), ("y", None))
    await described(asking, one.wire)
    await two.beat([])
    await two.leave()
    await described(asking, one.wire)
    asking.phase = "the newer one is sent away"
    await asking.another_group()
    one = await alone(asking)
    two = await beater(asking, "c")
    await two.join()
    message = LeaveGroupRequest(group_id=asking.group, members=[LeaveGroupRequestMember(member_id="c")])
    await asking.note(one.wire, message, 5)
    await described(asking, one.wire)
    asking.phase = "both are"
    await asking.another_group()
    one = await alone(asking)
    two = await beater(asking, "c")
    await two.join()
    await one.leave(5, (one.id, None), ("c", None))
    await described(asking, one.wire)


async def in_between(asking: Asking) -> None:
    """Groups that are converted in the middle of a round."""
    await settled(asking)
    asking.phase = "joining"
    one = await alone(asking)
    other = await asking.member("y", protocols=one.protocols)
    joined = await other.enter()
    await asking.until("PreparingRebalance", 2)
    two = await beater(asking, "c")
    await two.join()
    await joined
    await one.heartbeat()
    await asking.another_group()
    asking.phase = "syncing"
    one = await asking.member("x", protocols=[("cooperative-sticky", owning(asking, ()))])
    await (await one.enter())
    two = await beater(asking, "c")
    await two.join(subscribed_topic_names=[])  # who gets what of partitions that nobody had is left to the coordinator
    await one.sync(assignments={one.id: share(asking, ALL)})
    await rejoin(one, [])
    await one.sync()
    await described(asking, one.wire)


async def refused(asking: Asking) -> None:
    """Groups that cannot be converted, members that do not fit."""
    await settled(asking)
    two = await beater(asking, "c")
    asking.phase = "no consumers"
    one = await asking.member("x", protocols=[("range", owning(asking, ()))], protocol_type="connect")
    await (await one.enter())
    await one.sync(assignments={one.id: b""})
    await two.join()
    asking.phase = "a share that nobody can read"
    await asking.another_group()
    one = await alone(asking)
    await one.begin_join()
    await one.sync(assignments={one.id: b"mine"})
    await two.join()
    asking.phase = "a subscription that nobody can read"
    await asking.another_group()
    one = await asking.member("x", protocols=[("range", b"mine")])
    await (await one.enter())
    await one.sync(assignments={one.id: share(asking, ALL)})
    await two.join()
    asking.phase = "with data of its own"
    await asking.another_group()
    one = await alone(asking)
    await one.begin_join()
    await one.sync(assignments={one.id: share(asking, ALL, user_data=b"mine")})
    await two.join()
    asking.phase = "nothing to choose from"
    await asking.another_group()
    await two.join()
    one = await asking.member("x", protocols=[("range", b"mine")])
    await one.join(3)
    one = await asking.member("x", protocols=[("range", owning(asking, ()))])
    await one.join(3, protocols=[])
    await one.join(5, member_id="y")
    await one.join(3, session_timeout_ms=1)
    await described(asking, one.wire)


SCRIPTS = {
    "migrated": there_and_back,
    "migrated_static": static,
    "migrated_leaving": leaving,
    "migrated_rounds": in_between,
    "migrated_refused": refused,
}
