"""Deleting the directories of a topic's partitions, and finishing what a crash or the disk interrupted.

A directory first gets a name that says it is to go, then it goes. That name has the topic's id instead of the topic's
own name, which may fill all 255 bytes that file systems give to a name. What must not live here: the catalog's file.
"""

from __future__ import annotations

from typing import Final

from penstock.store._directory import Directory
from penstock.store._folder import topic_id_of
from penstock.store.catalog import Catalog, TopicState

__all__ = ["delete_folders", "sweep"]

_DELETED: Final = ".deleted"
"""No partition's directory ends so: those end with a number."""


def delete_folders(directory: Directory, topic: TopicState) -> None:
    """Delete what there is of the topic's partitions, durably. Raises OSError; `sweep` then does the rest."""
    there = set(directory.folders())
    for partition in range(topic.partitions):
        name = f"{topic.name}-{partition}"
        if name in there:
            _delete(directory, name, topic.id, partition)
    directory.sync()  # else a loss of power may bring them back when nobody knows any more what they were


def sweep(directory: Directory, catalog: Catalog) -> OSError | None:
    """Finish deletions that were interrupted; the first thing that could not be deleted says why.

    Topics with directories that are still there stay in ``catalog.deleting``.
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
    """Topic id and partition, if the directory is one of a topic that is being deleted."""
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
