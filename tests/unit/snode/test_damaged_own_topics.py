"""A damaged topic of the node's own: the node says which file, where and what to do, and starts with repair."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.config import SnodeConfig, parse_listener
from penstock.records.scalar_codec import batch_of
from penstock.snode import Node
from penstock.store import StoreDamaged, open_store

SCHEMES = ("kafka", "rocketmq", "tubemq")
LISTEN = tuple(parse_listener(f"{scheme}://127.0.0.1:0") for scheme in SCHEMES)
OWN = (
    "__consumer_offsets",
    "__transaction_state",
    "__penstock_kafka_groups",
    "__penstock_kafka_group_options",
    "__penstock_settings",
    "__penstock_rocketmq",
)
NOW = 1_700_000_000_000


def serve(config: SnodeConfig) -> None:
    """Start a node and stop it. Raises what its start raises."""

    async def main() -> None:
        async with Node(config):
            pass

    asyncio.run(main())


def damaged(folder: Path, name: str) -> Path:
    """A store with records in an own topic and in another one, stopped cleanly, and a flipped bit in the first."""
    with open_store(f"file:{folder}") as store:
        for topic in (name, "others"):
            store.create_topic(topic, 1, {"segment.bytes": "200"})
            for key in (b"a", b"b", b"c"):
                store.log(topic, 0).append(batch_of([(key, b"value")], NOW), now_ms=NOW)
    file = folder / f"{name}-0" / f"{0:020}.log"
    data = bytearray(file.read_bytes())
    data[70] ^= 0x40
    file.write_bytes(data)
    return file


@pytest.mark.parametrize("name", OWN)
def test_the_node_names_the_file_and_repair_loses_nothing_else(tmp_path: Path, name: str) -> None:
    file = damaged(tmp_path, name)
    before = file.read_bytes()
    config = SnodeConfig(store=f"file:{tmp_path}", listen=LISTEN)
    with pytest.raises(StoreDamaged) as caught:
        serve(config)
    assert f"{file}, byte 0:" in str(caught.value)
    assert name in str(caught.value)
    assert "--repair" in str(caught.value)
    assert file.read_bytes() == before
    with open_store(f"file:{tmp_path}", repair=True, repair_whole=lambda topic: topic == name) as store:
        (cut,) = store.recovered
        assert cut.file == str(file)
        assert cut.aside is not None
        assert Path(cut.aside).read_bytes() == before
        assert store.log("others", 0).end_offset == 3
        assert store.log(name, 0).end_offset == 3
        assert store.log(name, 0).start_offset == 2


def test_repair_is_said_in_one_line_and_done_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    file = damaged(tmp_path, OWN[0])
    file.with_name(f"{2:020}.log").write_bytes(b"")  # entries that no coordinator would know
    config = SnodeConfig(store=f"file:{tmp_path}", listen=LISTEN)
    with caplog.at_level(logging.WARNING, "penstock.node"):
        serve(replace(config, repair=True))
    assert len([record for record in caplog.records if str(file) in record.getMessage()]) == 1
    caplog.clear()
    with caplog.at_level(logging.WARNING, "penstock.node"):
        serve(config)
    assert not caplog.records
