"""Identity: as whom a group's coordinator is asked for offsets, and told of them. Data only."""

from __future__ import annotations

from penstock._dataclasses import dataclass

__all__ = ["NOBODY", "Identity"]


@dataclass(frozen=True, slots=True)
class Identity:
    """A member in a generation (of a newer group: in a member epoch), or nobody in particular."""

    member_id: str = ""
    generation: int = -1
    instance_id: str | None = None


NOBODY = Identity()
