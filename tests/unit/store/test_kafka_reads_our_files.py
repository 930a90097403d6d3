"""Kafka's own DumpLogSegments finds no fault with our segments and indexes. Needs Java and Kafka's jars."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.model import Codec
from penstock.records.batch import end_marker
from tests.unit.store.homes import NOW, Home, batch
from tests.unit.store.test_compaction import compact
from tests.unit.store.test_transactions import sent
from tools.peers import kafka, maven


def jars_of(version: str) -> Path:
    try:
        return kafka.jars(version)
    except maven.Unavailable as error:
        pytest.skip(str(error))


def dump(jars: Path, files: list[str], *options: str) -> str:
    old = next(jars.glob("kafka_2.13-3.*.jar"), None)
    main = "kafka.tools.DumpLogSegments" if old else "org.apache.kafka.tools.DumpLogSegments"
    run = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-cp", f"{jars}/*", main, *options, "--files", ",".join(files)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    return run.stdout


@pytest.mark.interop
@pytest.mark.skipif(not shutil.which("java"), reason="no Java here")
@pytest.mark.parametrize("version", kafka.VERSIONS)
@pytest.mark.parametrize("clean", [True, False])
def test_dump_log_segments_agrees(disk: Home, version: str, clean: bool) -> None:
    store = disk.open(index_interval_bytes=500)
    store.create_topic("t", 1, {"segment.bytes": "10000"})
    log = store.log("t", 0)
    for number in range(200):
        values = [b"%d" % number * 20] * (number % 5 + 1)
        times = [NOW + number * 10 + (-7) ** row for row in range(len(values))]
        log.append(batch(values, times=times, codec=Codec(number % 5)), now_ms=NOW)
    if clean:
        store.close()
        home = disk
    else:
        home = disk.crash()
        home.open(index_interval_bytes=500).close()
    assert home.path is not None
    folder = home.path / "t-0"
    logs, indexes = (
        sorted(str(path) for path in folder.iterdir() if re.search(suffix, path.name))
        for suffix in (r"\.log$", r"index$")
    )
    assert len(logs) > 2
    jars = jars_of(version)
    records = dump(jars, logs, "--deep-iteration")
    assert len(re.findall(r"^\| offset: ", records, re.MULTILINE)) == log.end_offset
    assert "isvalid: false" not in records
    entries = dump(jars, indexes)
    assert len(re.findall(r"^offset: ", entries, re.MULTILINE)) > 10
    assert len(re.findall(r"^timestamp: ", entries, re.MULTILINE)) > 10
    assert not re.findall(r"^(?!Dumping|offset: |timestamp: ).+", entries, re.MULTILINE)


@pytest.mark.interop
@pytest.mark.skipif(not shutil.which("java"), reason="no Java here")
@pytest.mark.parametrize("version", kafka.VERSIONS)
def test_dump_log_segments_sees_delete_horizons(disk: Home, version: str) -> None:
    store = disk.open()
    store.create_topic("t", 1, {"cleanup.policy": "compact", "delete.retention.ms": "1000"})
    log = store.log("t", 0)
    for codec in Codec:
        keys = [b"%d-%d" % (codec, each) for each in range(3)]
        log.append(batch([b"v", None, b"w"], keys=keys, times=[NOW - 5, NOW - 9, -1], codec=codec), now_ms=NOW)
    log.append(sent(7, 0, b"t", key=b"0-0"), now_ms=NOW)
    log.append(end_marker(7, 0, commit=False, coordinator_epoch=3, now_ms=NOW), now_ms=NOW)
    log.roll()
    assert compact(store, NOW + 50) == 1
    store.close()
    assert disk.path is not None
    logs = sorted(str(path) for path in (disk.path / "t-0").glob("*.log"))
    records = dump(jars_of(version), logs, "--deep-iteration")
    assert "isvalid: false" not in records
    assert re.findall(r"deleteHorizonMs: (\S+)", records) == [f"OptionalLong[{NOW + 1_050}]"] * (len(Codec) + 1)
    times = re.findall(r"^\| offset: \d+ (?:CreateTime|NoTimestampType)?:? ?(-?\d+)", records, re.MULTILINE)
    assert times == [str(time) for _ in Codec for time in (NOW - 5, NOW - 9, -1)] + [str(NOW)]
    assert "endTxnMarker: ABORT coordinatorEpoch: 3" in records
