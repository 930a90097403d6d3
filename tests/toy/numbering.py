"""Which partition of the cluster has which number at a node in front: kept while nodes come and go. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence


class Numbering:
    """A topic's partitions are numbered in the order in which they were heard of: by their own numbers, then by node.

    A node that nobody tells of any more keeps its places, so that no other partition gets its number.
    """

    def __init__(self) -> None:
        self._homes: dict[str, list[tuple[str, int]]] = {}

    def told(self, nodes: Mapping[str, Mapping[str, int]]) -> None:
        """How many partitions of which topics each node has, for those nodes that are known of now."""
        for topic in {*self._homes, *(topic for topics in nodes.values() for topic in topics)}:
            there = {(node, number) for node, topics in nodes.items() for number in range(topics.get(topic, 0))}
            homes = self._homes.setdefault(topic, [])
            if any(node in nodes and (node, number) not in there for node, number in homes):
                homes.clear()  # it was deleted, and perhaps made anew
            homes += sorted(there.difference(homes), key=lambda home: (home[1], home[0]))
            if not homes:
                del self._homes[topic]

    def topics(self) -> Sequence[str]:
        return sorted(self._homes)

    def homes(self, topic: str) -> Sequence[tuple[str, int]]:
        """By our numbers: the node, and its own number of the partition."""
        return self._homes.get(topic, ())
