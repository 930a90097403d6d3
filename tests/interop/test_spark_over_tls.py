"""A real Kafka that speaks TLS: a job's own ``kafka.ssl.*`` options do through our source and sink what they did."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from penstock.client import Admin, Producer
from penstock.errors import ConfigError, PenstockError
from penstock.interfaces import NewTopic
from penstock.spark._options import parse_options
from penstock.spark._reading import BatchReader
from tests.interop.test_spark_connector_and_ours import plain
from tools.peers import jvm, kafka
from tools.peers.maven import Unavailable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed"),
]

TOPIC, COUNT = "over-tls", 50
SOURCES = ("kafka", "penstock")
KEYTOOL = "keytool"


@dataclass(frozen=True)
class Secured:
    """A broker's TLS ports by what they ask for, and the folder with ``ca.pem``, ``me.pem`` and ``locked.pem``."""

    ports: dict[str, int]
    files: Path

    def options(self, listener: str, **more: str) -> dict[str, str]:
        """Those of a job that believes ``ca.pem``; ``ssl_…`` in ``more`` are written with underscores."""
        given = {"ssl_truststore_type": "PEM", "ssl_truststore_location": str(self.files / "ca.pem"), **more}
        servers = f"127.0.0.1:{self.ports[listener]}"
        named = {f"kafka.{name.replace('_', '.')}": text for name, text in given.items()}
        return {"kafka.bootstrap.servers": servers, "kafka.security.protocol": "SSL", **named}

    def certificate(self, name: str = "me") -> dict[str, str]:
        return {"ssl_keystore_type": "PEM", "ssl_keystore_location": str(self.files / f"{name}.pem")}


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A broker with three TLS listeners: ANYONE, KNOWN (asks for a certificate), RENAMED (shows another name)."""
    files = certificates(tmp_path_factory.mktemp("certificates"))
    ports = dict(zip(("ANYONE", "KNOWN", "RENAMED"), jvm.free_ports(3), strict=True))
    settings: dict[str, str] = {}
    for name in ports:
        prefix = f"listener.name.{name.lower()}.ssl"
        shown = "renamed" if name == "RENAMED" else "broker"
        settings |= {f"{prefix}.keystore.type": "PEM", f"{prefix}.keystore.location": str(files / f"{shown}.pem")}
    settings |= {
        "listener.name.known.ssl.client.auth": "required",
        "listener.name.known.ssl.truststore.type": "PEM",
        "listener.name.known.ssl.truststore.location": str(files / "ca.pem"),
    }
    try:
        with kafka.broker(tmp_path_factory.mktemp("secured"), settings=settings, tls=ports) as running:
            with Admin(f"kafka://{running.bootstrap}") as admin:
                copies = [f"{TOPIC}-{name}-{source}" for name in ports for source in SOURCES]
                admin.create_topics([NewTopic(name, 2) for name in (TOPIC, *copies)])
            with Producer(f"kafka://{running.bootstrap}") as producer:
                for number in range(COUNT):
                    producer.send(TOPIC, b"%d" % number, key=b"%d" % number)
            yield Secured(ports, files)
    except Unavailable as reason:
        pytest.skip(f"no Kafka to test with: {reason}")


def certificates(folder: Path) -> Path:
    """An authority and three that it signed for; each file has key and chain. ``locked.pem`` is ``me``, encrypted."""

    def openssl(*arguments: str) -> None:
        subprocess.run(["openssl", *arguments], check=True, capture_output=True, cwd=folder)

    def request(name: str, *arguments: str) -> None:
        openssl("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}", "-keyout", f"{name}.key", *arguments)

    request("ca", "-x509", "-days", "2", "-out", "ca.pem")
    for name, alternative in (("broker", "IP:127.0.0.1"), ("renamed", "DNS:kafka.test"), ("me", "DNS:me.test")):
        request(name, "-out", "request")
        (folder / "names").write_text(f"subjectAltName={alternative}")
        openssl("x509", "-req", "-in", "request", "-days", "2", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
                "-extfile", "names", "-out", "signed")  # fmt: skip
        chain = (folder / "signed").read_text() + (folder / "ca.pem").read_text()
        (folder / f"{name}.pem").write_text((folder / f"{name}.key").read_text() + chain)
    openssl("pkcs8", "-topk8", "-in", "me.key", "-passout", "pass:hush", "-out", "locked.key")
    (folder / "locked.pem").write_text((folder / "locked.key").read_text() + chain)
    return folder


def read(options: dict[str, str]) -> int:
    reader = BatchReader(parse_options({**options, "subscribe": TOPIC, "fetchOffset.numRetries": "0"}))
    return sum(batch.num_rows for task in reader.partitions() for batch in reader.read(task))


@pytest.mark.parametrize("listener", ["ANYONE", "KNOWN", "RENAMED"])
def test_job_moves_by_changing_one_word(spark: SparkSession, secured: Secured, listener: str, tmp_path: Path) -> None:
    more = {"KNOWN": secured.certificate(), "RENAMED": {"ssl_endpoint_identification_algorithm": ""}}.get(listener, {})
    options: Any = secured.options(listener, **more)
    found = {}
    for source in SOURCES:
        name = f"{TOPIC}-{listener}-{source}"
        frame = spark.read.format(source).options(**options).option("subscribe", TOPIC).load()
        frame.select("key", "value").write.format(source).options(**options).option("topic", name).mode("append").save()
        kept: list[Any] = []
        stream = spark.readStream.format(source).options(**options).option("subscribe", name)
        writer = stream.option("startingOffsets", "earliest").load().writeStream.trigger(availableNow=True)
        writer = writer.foreachBatch(lambda batch, _, kept=kept: kept.extend(plain(batch.select("key", "value"))))
        writer.option("checkpointLocation", str(tmp_path / source)).start().awaitTermination()
        found[source] = (plain(frame), sorted(kept))
    assert len(found["kafka"][0]) == len(found["kafka"][1]) == COUNT
    assert found["penstock"] == found["kafka"]


def test_encrypted_key_is_read_with_its_password(secured: Secured) -> None:
    locked = secured.certificate("locked")
    assert read(secured.options("KNOWN", **locked, ssl_key_password="hush")) == COUNT
    with pytest.raises(ConfigError, match="tls_key_password"):
        read(secured.options("KNOWN", **locked, ssl_key_password="wrong"))


def test_broker_that_shows_another_name_is_refused(secured: Secured) -> None:
    with pytest.raises(PenstockError, match="certificate"):
        read(secured.options("RENAMED"))


def test_broker_that_asks_for_a_certificate_refuses_who_has_none(secured: Secured) -> None:
    with pytest.raises(PenstockError):
        read(secured.options("KNOWN", default_api_timeout_ms="3000"))


def test_stores_are_converted_by_the_commands_that_the_error_tells(secured: Secured, tmp_path: Path) -> None:
    if shutil.which(KEYTOOL) is None:
        pytest.skip("keytool is not installed")
    java_stores(secured.files, tmp_path)
    options = secured.options("KNOWN")
    for store in ("truststore", "keystore"):
        options[f"kafka.ssl.{store}.location"] = f"{store}.jks"
        options.pop(f"kafka.ssl.{store}.type", None)
        with pytest.raises(ConfigError) as told:
            parse_options({**options, "subscribe": TOPIC})
        found = re.search(r"by (keytool .*) and set ", str(told.value))
        assert found
        for command in found[1].split(" && "):  # each asks for passwords: of the store, of the new one, and again
            subprocess.run(command, shell=True, cwd=tmp_path, check=True, capture_output=True, input=b"secret\n" * 3)
        options |= {f"kafka.ssl.{store}.type": "PEM", f"kafka.ssl.{store}.location": str(tmp_path / f"{store}.pem")}
    assert read(options) == COUNT


def java_stores(files: Path, folder: Path) -> None:
    """``truststore.jks`` with the authority and ``keystore.jks`` with the key of ``me``."""
    ours = ["-storepass", "secret", "-noprompt"]
    pkcs12 = ["openssl", "pkcs12", "-export", "-in", str(files / "me.pem"), "-out", "me.p12", "-passout", "pass:secret"]
    trust = [KEYTOOL, "-importcert", "-file", str(files / "ca.pem"), "-keystore", "truststore.jks", *ours]
    convert = [KEYTOOL, "-importkeystore", "-srckeystore", "me.p12", "-srcstorepass", "secret"]
    own = [*convert, "-destkeystore", "keystore.jks", "-deststoretype", "JKS", "-deststorepass", "secret", "-noprompt"]
    for command in (pkcs12, trust, own):
        subprocess.run(command, check=True, capture_output=True, cwd=folder)
