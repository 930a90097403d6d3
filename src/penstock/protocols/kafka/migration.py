"""Which way groups with members may go over from one protocol of groups to the other: an operator's choice.

Source: KIP-848, ``group.consumer.migration.policy``.
"""

from __future__ import annotations

import enum

__all__ = ["MigrationPolicy"]


class MigrationPolicy(enum.StrEnum):
    """Which way a group with members may go over, from the older protocol (upgrade) or back to it (downgrade)."""

    DISABLED = "disabled"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    BIDIRECTIONAL = "bidirectional"

    @property
    def upgrades(self) -> bool:
        """A group of the older protocol may become one of the newer."""
        return self in (MigrationPolicy.UPGRADE, MigrationPolicy.BIDIRECTIONAL)

    @property
    def downgrades(self) -> bool:
        """A group of the newer protocol may become one of the older."""
        return self in (MigrationPolicy.DOWNGRADE, MigrationPolicy.BIDIRECTIONAL)
