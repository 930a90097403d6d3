"""Jars of foreign servers are what was written down, or they are not used."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest

from tools.peers import maven, tubemq_java


def test_another_jar_than_expected_is_refused(tmp_path: Path) -> None:
    (tmp_path / "peer.jar").write_bytes(b"what was published")
    right = hashlib.sha256(b"what was published").hexdigest()
    maven._verify(tmp_path, {"peer.jar": right})
    (tmp_path / "peer.jar").write_bytes(b"what somebody put in its place")
    with pytest.raises(maven.Unavailable, match=r"peer\.jar is another one than expected"):
        maven._verify(tmp_path, {"peer.jar": right})


def test_a_machine_without_maven_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_PEERS", str(tmp_path / "empty"))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(maven.Unavailable, match="no mvn on the PATH"):
        tubemq_java.jars()


def test_drivers_that_do_not_compile_say_why(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sources = tmp_path / "java"
    sources.mkdir()
    (sources / "Broken.java").write_text("class Broken { int half")
    (sources / "log4j2.xml").write_text("<Configuration/>")
    monkeypatch.setattr(tubemq_java, "SOURCES", sources)
    monkeypatch.setattr(tubemq_java, "jars", lambda: tmp_path)
    monkeypatch.setenv("PENSTOCK_PEERS", str(tmp_path / "cache"))
    with pytest.raises(maven.Unavailable, match=r"do not compile|no javac|no Java"):
        tubemq_java.classes()
    assert list((tmp_path / "cache").iterdir()) == []
