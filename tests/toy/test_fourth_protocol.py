"""A protocol that is one folder: kernel, options, address form, files, node options, faults work by its attribute."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

from penstock import Admin, Consumer, NewTopic, Producer, RangeReader, kernels, protocols
from penstock.errors import ConfigError, CorruptBatch, ServerError, UsageError
from penstock.kernels.cache import MAIN, folder
from penstock.kernels.warm import homes
from penstock.model import Endpoint, LogRange
from penstock.testing import Broker
from tests.toy.kernels import checksum
from tests.toy.kernels.choice import HOME
from tests.toy.registration import PROTOCOL


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocols, "_registered", {})
    protocols.register(PROTOCOL)


@pytest.fixture
def node() -> Iterator[Broker]:
    with Broker(listen="toy://127.0.0.1:0") as broker:
        broker.create_topic("t")
        yield broker


def filled(broker: Broker) -> str:
    with Producer(broker.url("toy")) as producer:
        producer.send("t", b"value").result(20)
    return broker.url("toy")


def read(address: str, **options: str) -> list[bytes | None]:
    with RangeReader(address, **options) as reader:
        (found,) = reader.topics(["t"])["t"].partitions
        wanted = LogRange.of(found.partition, 0, 1)
        return [message.value for batch in reader.read(wanted) for message in batch]


@pytest.mark.parametrize("which", ["pure", "numba"])
def test_its_kernels_are_chosen_and_say_the_same(which: str) -> None:
    with kernels.using(which):
        assert [checksum(data) for data in (b"", b"abc", bytes(range(256)) * 99)] == [
            zlib.adler32(data) for data in (b"", b"abc", bytes(range(256)) * 99)
        ]
        assert kernels.kernel_of(HOME).__name__ == f"{HOME}._{which}"


def test_its_kernels_are_compiled_with_all_others_and_kept_apart() -> None:
    assert HOME in homes()
    assert folder(HOME) not in {None, folder(MAIN)}
    with kernels.using("numba"):
        assert hasattr(import_module(f"{HOME}._numba").checksum, "stats")


def test_its_addresses_are_understood_in_their_own_form_and_with_its_port() -> None:
    found = protocols.address_of("toy!h!flights")
    assert (found.endpoints, found.topics) == ((Endpoint("h", 7007),), ("flights",))
    assert protocols.address_of("toy://h/flights").endpoints == (Endpoint("h", 7007),)


def test_a_client_takes_an_address_of_that_form(node: Broker) -> None:
    with Admin("toy!" + node.url("toy").removeprefix("toy://")) as admin:
        assert set(admin.topics()) == {"t"}


def test_its_option_changes_what_its_client_does_under_both_of_its_names() -> None:
    with Broker(listen="toy://127.0.0.1:0", spoil_sums=True) as broker:
        broker.create_topic("t")
        address = filled(broker)
        with pytest.raises(CorruptBatch, match="checksum"):
            read(address)
        assert read(address, check_sums="false") == read(address + "?verifySums=false") == [b"value"]


def test_an_option_of_its_is_none_of_another_protocols() -> None:
    with pytest.raises(ConfigError, match="no option 'verifySums'"):
        Consumer("kafka://h:1/t", verifySums="false")
    with pytest.raises(ConfigError, match="no option 'homes'"):
        Consumer("kafka:///t?homes=h:1")
    with pytest.raises(ConfigError, match="The toy is grey"):
        Consumer("toy://h/t?colour=red")


def test_its_files_are_read(tmp_path: Path, node: Broker) -> None:
    place = tmp_path / "client.toy"
    place.write_text(f"homes is {node.url('toy').removeprefix('toy://')}\ncrew is stats\n")
    with Consumer("toy:///t", config_file=str(place)) as consumer:
        assert consumer.partitions_for("t")


def test_faults_are_injected_into_its_front(node: Broker) -> None:
    node.faults_of("toy").error("create", "NO_ROOM")
    with Admin(node.url("toy")) as admin, pytest.raises(ServerError, match="so it was wanted") as caught:
        admin.create_topics([NewTopic("more", 1)])
    assert caught.value.name == "NO_ROOM"
    with pytest.raises(UsageError, match="no verb"):
        node.faults_of("toy").drop("fly")


def test_without_faults_it_works(node: Broker) -> None:
    assert read(filled(node)) == [b"value"]
