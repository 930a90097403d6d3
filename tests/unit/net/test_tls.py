"""TLS on both transports, with a certificate made for the occasion."""

from __future__ import annotations

import asyncio
import shutil
import ssl
import subprocess
from pathlib import Path

import pytest
from msgspec.structs import replace

from penstock.client.connecting import _options_for, _transport
from penstock.config import ClientConfig
from penstock.errors import ConfigError, ConnectionLost
from penstock.model import Endpoint
from penstock.net.asyncio_channel import AsyncioChannel
from penstock.net.blocking_channel import BlockingChannel, run
from penstock.net.connecting import ListenerOptions
from penstock.net.network import Tcp
from penstock.net.server import serve
from tests.unit.net.toy import ToyDialect, ToyFront, ask

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Certificate and key of somebody who is called ``tube.test`` and signed for himself."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = folder / "certificate.pem", folder / "key.pem"
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tube.test"]
    names = ["-addext", "subjectAltName=DNS:tube.test", "-keyout", str(key), "-out", str(certificate)]
    subprocess.run([*command, *names], check=True, capture_output=True)
    return certificate, key


def listening(files: tuple[Path, Path], *, ask_client: bool = False) -> ListenerOptions:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(*files)
    if ask_client:
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_verify_locations(files[0])
    return ListenerOptions(ssl=context)


async def said(options: ListenerOptions, config: ClientConfig, *, blocking: bool) -> str:
    """What the greeting brought, over TLS."""
    listener = await serve(ToyFront(), Endpoint("127.0.0.1", 0), options=options, network=Tcp(ssl=options.ssl))
    transport = _transport(config)

    async def work(channel: AsyncioChannel[str] | BlockingChannel[str]) -> str:
        try:
            link = await channel.link(listener.endpoint)
            await link.connection.call(ask(b"word"), timeout_s=5)
            return link.state
        finally:
            await channel.close()

    def block() -> str:
        return run(work(BlockingChannel(ToyDialect(), options=transport)))

    try:
        if blocking:
            return await asyncio.to_thread(block)
        return await work(AsyncioChannel(ToyDialect(), options=transport))
    finally:
        await listener.close()


@pytest.mark.parametrize("blocking", [False, True])
def test_a_server_that_shows_the_expected_name_is_spoken_to(files: tuple[Path, Path], blocking: bool) -> None:
    config = ClientConfig(tls=True, tls_ca_file=str(files[0]), tls_server_name="tube.test")
    assert asyncio.run(said(listening(files), config, blocking=blocking)) == "HELLO"


@pytest.mark.parametrize("blocking", [False, True])
def test_a_server_with_another_name_is_refused_unless_names_do_not_count(
    files: tuple[Path, Path], blocking: bool
) -> None:
    with pytest.raises(ConnectionLost, match="certificate"):
        asyncio.run(said(listening(files), ClientConfig(tls=True, tls_ca_file=str(files[0])), blocking=blocking))
    config = ClientConfig(tls=True, tls_ca_file=str(files[0]), tls_check_server_name=False)
    assert asyncio.run(said(listening(files), config, blocking=blocking)) == "HELLO"


@pytest.mark.parametrize("blocking", [False, True])
def test_a_server_signed_by_nobody_we_trust_is_refused(files: tuple[Path, Path], blocking: bool) -> None:
    config = ClientConfig(tls=True, tls_server_name="tube.test")
    with pytest.raises(ConnectionLost, match="tls_ca_file") as caught:
        asyncio.run(said(listening(files), config, blocking=blocking))
    assert not caught.value.retriable


@pytest.mark.parametrize("blocking", [False, True])
def test_a_server_that_asks_for_our_certificate_gets_it(files: tuple[Path, Path], blocking: bool) -> None:
    config = ClientConfig(
        tls=True, tls_ca_file=str(files[0]), tls_server_name="tube.test",
        tls_certificate_file=str(files[0]), tls_key_file=str(files[1]),
    )  # fmt: skip
    assert asyncio.run(said(listening(files, ask_client=True), config, blocking=blocking)) == "HELLO"


def test_a_key_that_asks_for_its_password_gets_it_and_nobody_else_is_asked(
    files: tuple[Path, Path], tmp_path: Path
) -> None:
    both = tmp_path / "both.pem"
    command = ["openssl", "pkcs8", "-topk8", "-in", str(files[1]), "-passout", "pass:hush", "-out", str(both)]
    subprocess.run(command, check=True, capture_output=True)
    both.write_text(both.read_text() + files[0].read_text())
    config = ClientConfig(
        tls=True, tls_ca_file=str(files[0]), tls_server_name="tube.test", tls_certificate_file=str(both),
        tls_key_password="hush",
    )  # fmt: skip
    assert asyncio.run(said(listening(files, ask_client=True), config, blocking=True)) == "HELLO"
    for wrong in (None, "other"):
        with pytest.raises(ConfigError, match="tls_key_password") as caught:
            _transport(replace(config, tls_key_password=wrong))
        assert "other" not in str(caught.value)


def test_files_that_cannot_be_read_are_the_caller_s_mistake(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="PEM"):
        _transport(ClientConfig(tls=True, tls_ca_file=str(tmp_path / "none.pem")))
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("no certificate")
    with pytest.raises(ConfigError, match="PEM"):
        _transport(ClientConfig(tls=True, tls_ca_file=str(wrong)))


def test_a_dialect_that_is_never_spoken_over_tls_is_not(files: tuple[Path, Path]) -> None:
    class Plain(ToyDialect):
        plaintext = True

    options = _transport(ClientConfig(tls=True, tls_ca_file=str(files[0])))
    assert _options_for(Plain(), options).ssl is None
    assert _options_for(ToyDialect(), options).ssl is not None
