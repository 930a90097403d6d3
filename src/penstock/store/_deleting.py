"""Deleting the directories of a topic's partitions, and finishing deletions that a crash or a disk error interrupted.

A directory is first renamed to mark it for deletion, then deleted. The new name contains the topic's id instead of its
name, which may already use all 255 bytes that file systems allow. What must not live here: the catalog's file.
"""

from __future__ import annotations

from typing import Final

from penstock.store._directory import Directory
from penstock.store._folder import topic_id_of
from penstock.store.catalog import Catalog, TopicState

__all__ = ["delete_folders", "sweep"]

_DELETED: Final = ".deleted"
"""No partition's directory ends like this: those end with a number."""


def delete_folders(directory: Directory, topic: TopicState) -> None:
    """Delete the topic's directories, as far as they exist, durably. Raises OSError; `sweep` then does the rest."""
    there = set(directory.folders())
    for partition in range(topic.partitions):
        name = f"{topic.name}-{partition}"
        if name in there:
            _delete(directory, name, topic.id, partition)
    directory.sync()  # or a power loss may bring them back after the catalog has forgotten them


def sweep(directory: Directory, catalog: Catalog) -> OSError | None:
    """Finish interrupted deletions; returns the first error, None if all could be deleted.

    Topics whose directories are still there stay in ``catalog.deleting``.
    """
    trouble: OSError | None = None
    kept: set[bytes] = set()
    swept = False
    for name in directory.folders():
        found = None if name.endswith(_DELETED) else _of_deleted(directory, catalog, name)
        if found is None and not name.endswith(_DELETED):
            continue
        swept = True
        try:
            if found is None:
                directory.remove_folder(name)
            else:
                _delete(directory, name, *found)
        except OSError as error:
            trouble = trouble or error
            kept |= {found[0]} if found else set()
    if swept:
        directory.sync()
    for topic_id in set(catalog.deleting) - kept:
        del catalog.deleting[topic_id]
    return trouble


def _of_deleted(directory: Directory, catalog: Catalog, name: str) -> tuple[bytes, int] | None:
    """Topic id and partition, if the directory belongs to a topic that is being deleted."""
    topic, _, number = name.rpartition("-")
    owners = [topic_id for topic_id, deleted in catalog.deleting.items() if deleted == topic]
    if not owners or not number.isdecimal():
        return None
    owner = topic_id_of(directory.folder(name))
    if owner is None and topic not in catalog.topics:
        owner = owners[0]  # the crash came before its metadata was on the disk
    return (owner, int(number)) if owner in owners else None


def _delete(directory: Directory, name: str, topic_id: bytes, partition: int) -> None:
    gone = f"{topic_id.hex()}-{partition}{_DELETED}"
    directory.move_folder(name, gone)
    directory.remove_folder(gone)
