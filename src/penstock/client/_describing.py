"""Many groups described: together where the servers can, else one after the other.

What must not live here: what a description says.
"""

from __future__ import annotations

from collections.abc import Collection

from penstock.errors import ServerError
from penstock.seams import AdminClient, DescribesMany, GroupDescriptions

__all__ = ["describe_each"]


async def describe_each(admin: AdminClient, groups: Collection[str]) -> GroupDescriptions:
    """Groups by name, in the order asked for. Raises what is no single group's error."""
    if isinstance(admin, DescribesMany):
        return await admin.describe_groups(groups)
    told = GroupDescriptions()
    for group in dict.fromkeys(groups):
        try:
            told.put(group, await admin.describe_group(group))
        except ServerError as error:
            told.put(group, error)
    return told
