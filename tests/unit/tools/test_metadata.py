"""What a package index is told: nothing that is not there, no link that leads nowhere, the extras that code names."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from email.message import Message
from email.parser import BytesParser
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from packaging.requirements import Requirement

from penstock import extras, protocols
from tools.environment import ROOT
from tools.ranges import IN_A_WHEEL

DECLARED: Mapping[str, list[str]] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"][
    "optional-dependencies"
]
BUILD = "import sys; from setuptools import build_meta; build_meta.prepare_metadata_for_build_wheel(sys.argv[1])"
EXTRAS = {**extras.EXTRAS, **{each.name: each for each in protocols.extras()}}
PACKAGES = {
    "google.protobuf": "protobuf",
    "opentelemetry": "opentelemetry-api",
    "prometheus_client": "prometheus-client",
}


@pytest.fixture(scope="module")
def metadata(tmp_path_factory: pytest.TempPathFactory) -> Message:
    """As it would lie in a wheel, made by the build backend from what it needs and nothing else."""
    source = tmp_path_factory.mktemp("source")
    for name in IN_A_WHEEL:
        (source / name).symlink_to(ROOT / name)
    (source / "src").unlink()
    version = source / "src" / "penstock"
    version.mkdir(parents=True)
    for name in ("__init__.py", "_version.py"):
        (version / name).symlink_to(ROOT / "src" / "penstock" / name)
    (source / "src" / "pyspark_penstock.py").touch()
    made = tmp_path_factory.mktemp("metadata")
    subprocess.run([sys.executable, "-c", BUILD, made], cwd=source, capture_output=True, check=True)
    (found,) = made.glob("*.dist-info/METADATA")
    with found.open("rb") as stream:
        return BytesParser().parse(stream)


def test_the_description_is_markdown_whose_links_lead_somewhere(metadata: Message) -> None:
    assert metadata["Description-Content-Type"] == "text/markdown"
    text = metadata.get_payload(decode=True)
    assert isinstance(text, bytes)
    html = MarkdownIt("commonmark").enable("table").render(text.decode())
    assert html.startswith("<h1>penstock</h1>")
    assert "<table>" in html
    targets = re.findall(r'(?:href|src)="([^"]*)"', html)
    assert [each for each in targets if not each.startswith("https://")] == []


def test_who_made_it_and_under_what_licence_is_told(metadata: Message) -> None:
    assert metadata["Author"] == "The penstock developers"
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["License-File"] == "LICENSE"
    assert metadata["Requires-Python"] == ">=3.11"
    assert metadata["Summary"]


def test_nothing_is_promised_that_is_not_there(metadata: Message) -> None:
    # No public place is known yet: none is better than one that does not answer.
    assert metadata.get_all("Project-URL", []) == []
    assert metadata["Home-page"] is None
    told = f"{metadata['Summary']} {metadata['Keywords']} {metadata.get_all('Classifier')}".lower()
    assert [word for word in ("rocketmq", "windows", "macos", "pulsar") if word in told] == []


def test_a_bare_install_needs_few_packages(metadata: Message) -> None:
    needed = [Requirement(line) for line in metadata.get_all("Requires-Dist", [])]
    bare = {each.name for each in needed if each.marker is None}
    assert bare == {"cramjam", "google-crc32c", "h11", "msgspec", "numpy", "pyarrow"}


@pytest.mark.parametrize("extra", EXTRAS.values(), ids=lambda extra: extra.name)
def test_an_extra_brings_what_the_code_looks_for(extra: object) -> None:
    assert extra in EXTRAS.values()
    name, modules = extra.name, extra.modules  # type: ignore[attr-defined]
    asked = {Requirement(line).name for line in DECLARED[name]} - {"penstock"}
    assert {PACKAGES.get(module, module) for module in modules} == asked


def test_all_is_all_a_user_may_want() -> None:
    (line,) = DECLARED["all"]
    assert Requirement(line).extras == set(EXTRAS) - {"demo"}


@pytest.mark.parametrize("page", ["PACKAGE.md", "docs/installing.md"])
def test_pages_name_every_extra_and_no_other(page: str) -> None:
    text = Path(ROOT / page).read_text(encoding="utf-8")
    rows = set(re.findall(r"^\| `'penstock\[(\w+)\]'` \|", text, re.MULTILINE))
    assert rows == {*EXTRAS, "all"} - {"demo"}
