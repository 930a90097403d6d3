"""Kafka's own DumpLogSegments finds no fault with our segments and indexes. Needs Java and Kafka's jars."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.model import Codec
from tests.unit.store.homes import NOW, Home, batch
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
@pytest.mark.parametrize("version", ["3.9.2", "4.3.1"])
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
