"""The coordinator of groups of the newer protocol (KIP-848): a pure state table with the clock passed in."""

from penstock.protocols.kafka.consumer_groups.coordinator import ConsumerCoordinator
from penstock.protocols.kafka.consumer_groups.group import ConsumerGroup, ConsumerMember
from penstock.protocols.kafka.consumer_groups.requests import Beat, BeatAnswer, Place, Topic, Wanted
from penstock.protocols.kafka.consumer_groups.settings import ConsumerGroupSettings
from penstock.protocols.kafka.consumer_groups.states import MemberState
from penstock.protocols.kafka.consumer_groups.stored import Stored

__all__ = [
    "Beat",
    "BeatAnswer",
    "ConsumerCoordinator",
    "ConsumerGroup",
    "ConsumerGroupSettings",
    "ConsumerMember",
    "MemberState",
    "Place",
    "Stored",
    "Topic",
    "Wanted",
]
