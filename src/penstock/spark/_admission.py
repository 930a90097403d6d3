"""How much of the backlog one micro-batch takes, and of which partition. Pure arithmetic.

What must not live here: Spark's read limits; the stream reader turns them into a number of records.
"""

from __future__ import annotations

from collections.abc import Mapping

from penstock.model import Partition

__all__ = ["admit"]


def admit(backlog: Mapping[Partition, int], limit: int | None) -> dict[Partition, int]:
    """Offsets to take of each partition, in proportion to its backlog; partitions without backlog are left out.

    Every partition that has a backlog gets at least one offset, so that a small one beside a huge one moves too
    (with fewer offsets allowed than partitions, the sum is therefore the number of partitions); otherwise the sum
    is exactly ``limit``. ``None`` takes everything. Ties go to the first partition, so that the answer is repeatable.
    """
    waiting = {partition: size for partition, size in sorted(backlog.items()) if size > 0}
    total = sum(waiting.values())
    if limit is None or total <= limit:
        return waiting
    spare = limit - len(waiting)
    if spare <= 0:
        return dict.fromkeys(waiting, 1)
    # One each is given; the rest by largest remainder over what is left of each backlog.
    rest = total - len(waiting)
    shares = {partition: divmod(spare * (size - 1), rest) for partition, size in waiting.items()}
    taken = {partition: 1 + whole for partition, (whole, _) in shares.items()}
    left = limit - sum(taken.values())
    for partition in sorted(shares, key=lambda each: -shares[each][1])[:left]:
        taken[partition] += 1
    return taken
