"""Options of the node that change while it runs: obeyed by topics that do not say, described, kept over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penstock.protocols.kafka.wire.configs import (
    AlterConfigsRequest,
    AlterConfigsRequestConfig,
    AlterConfigsRequestResource,
    DescribeConfigsRequest,
    DescribeConfigsRequestResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsRequestConfig,
    IncrementalAlterConfigsRequestResource,
)
from penstock.store import open_store
from tests.unit.kafka_front.kit import Kit, batch, run, serving

TOPIC, BROKER = 2, 4
DYNAMIC_BROKER, DYNAMIC_DEFAULT, DEFAULT = 2, 3, 5


async def alter(kit: Kit, name: str, changes: Mapping[str, str | None], **given: Any) -> tuple[int, str | None]:
    """Set each, or take it back where it is None."""
    configs = [
        IncrementalAlterConfigsRequestConfig(name=each, config_operation=int(value is None), value=value)
        for each, value in changes.items()
    ]
    resource = IncrementalAlterConfigsRequestResource(resource_type=BROKER, resource_name=name, configs=configs)
    answer = (await kit.ask(IncrementalAlterConfigsRequest(resources=[resource], **given), 1)).responses[0]
    return answer.error_code, answer.error_message


async def told(kit: Kit, kind: int, name: str) -> dict[str, tuple[str | None, int, list[tuple[str, str, int]]]]:
    resource = DescribeConfigsRequestResource(resource_type=kind, resource_name=name, configuration_keys=None)
    answer = await kit.ask(DescribeConfigsRequest(resources=[resource], include_synonyms=True), 4)
    return {
        each.name: (each.value, each.config_source, [(s.name, s.value, s.source) for s in each.synonyms])
        for each in answer.results[0].configs
    }


def test_topics_that_do_not_say_obey_what_was_set() -> None:
    async def test(kit: Kit) -> None:
        for name, config in (("says", {"retention.ms": "7", "max.message.bytes": "9000"}), ("silent", {})):
            kit.store.create_topic(name, 1, config)
        assert await alter(kit, "", {"log.retention.ms": "5", "message.max.bytes": "10"}) == (0, None)
        kit.store.create_topic("later", 1)
        kept = {name: kit.store.log(name, 0)._config.retention_ms for name in ("says", "silent", "later")}
        assert kept == {"says": 7, "silent": 5, "later": 5}
        codes = {name: (await kit.produce(name, batch([b"value"]))).error_code for name in kept}
        assert codes == {"says": 0, "silent": 10, "later": 10}
        assert await alter(kit, "", {"log.retention.ms": None, "message.max.bytes": None}) == (0, None)
        assert kit.store.log("silent", 0)._config.retention_ms == 7 * 86_400_000
        assert (await kit.produce("silent", batch([b"value"]))).error_code == 0
        assert not kit.store.defaults

    run(test)


def test_what_one_broker_was_told_comes_before_what_all_were() -> None:
    async def test(kit: Kit) -> None:
        kit.store.create_topic("t", 1)
        await alter(kit, "", {"log.retention.ms": "5", "compression.type": "zstd"})
        await alter(kit, "1", {"log.retention.ms": "6"})
        assert kit.store.log("t", 0)._config.retention_ms == 6
        usual = ("log.retention.hours", "168", DEFAULT)
        ways = [("log.retention.ms", "6", DYNAMIC_BROKER), ("log.retention.ms", "5", DYNAMIC_DEFAULT), usual]
        of_topic, of_node, of_all = [await told(kit, *which) for which in ((TOPIC, "t"), (BROKER, "1"), (BROKER, ""))]
        assert of_topic["retention.ms"] == ("6", DYNAMIC_BROKER, ways)
        assert of_topic["compression.type"][:2] == ("zstd", DYNAMIC_DEFAULT)
        assert of_node["log.retention.ms"] == ("6", DYNAMIC_BROKER, ways)
        assert of_node["log.retention.hours"] == ("168", DEFAULT, [usual])
        assert of_node["log.roll.ms"] == (None, DEFAULT, [])
        assert {name: row[:2] for name, row in of_all.items()} == {
            "compression.type": ("zstd", DYNAMIC_DEFAULT),
            "log.retention.ms": ("5", DYNAMIC_DEFAULT),
        }

    run(test)


def test_a_refusal_changes_nothing_and_validation_neither() -> None:
    async def test(kit: Kit) -> None:
        assert await alter(kit, "", {"log.retention.ms": "5"}, validate_only=True) == (0, None)
        assert (await alter(kit, "", {"log.retention.ms": "5", "num.partitions": "3"}))[0] == 42
        assert (await alter(kit, "", {"log.retention.ms": "5", "log.segment.bytes": "many"}))[0] == 42
        lags = {"log.cleaner.min.compaction.lag.ms": "9", "log.cleaner.max.compaction.lag.ms": "8"}
        assert (await alter(kit, "", lags))[0] == 40
        assert (kit.store.defaults, kit.store.node_options) == ({}, {})

    run(test)


def test_replacing_all_takes_back_what_is_not_named() -> None:
    async def test(kit: Kit) -> None:
        await alter(kit, "01", {"log.retention.ms": "5", "log.segment.bytes": "100"})
        configs = [AlterConfigsRequestConfig(name="log.segment.bytes", value="200")]
        resource = AlterConfigsRequestResource(resource_type=BROKER, resource_name="1", configs=configs)
        (answer,) = (await kit.ask(AlterConfigsRequest(resources=[resource]), 2)).responses
        assert answer.error_code == 0
        assert kit.store.defaults == {"segment.bytes": "200"}

    run(test)


def test_it_is_kept_over_a_restart(tmp_path: Path) -> None:
    async def main() -> None:
        for first in (True, False):
            with open_store(f"file:{tmp_path}") as store:
                async with serving(store=store) as kit:
                    if first:
                        store.create_topic("t", 1)
                        await alter(kit, "", {"log.retention.ms": "5"})
                    assert store.log("t", 0)._config.retention_ms == 5
                    assert (await told(kit, BROKER, ""))["log.retention.ms"][:2] == ("5", DYNAMIC_DEFAULT)

    asyncio.run(main())


def test_a_store_from_before_there_were_any_opens(tmp_path: Path) -> None:
    import json

    with open_store(f"file:{tmp_path}") as store:
        store.create_topic("t", 1)
    file = tmp_path / "store.json"
    facts = json.loads(file.read_text())
    del facts["defaults"], facts["node_options"]
    file.write_text(json.dumps(facts))
    with open_store(f"file:{tmp_path}") as store:
        assert (store.defaults, store.node_options) == ({}, {})
