"""The pages build without a warning: every link leads somewhere, every page is led to, every docstring can be read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from sphinx.util.inventory import InventoryFile

import penstock
import penstock.spark
import penstock.testing

DOCS = Path(__file__).parents[2] / "docs"
NO_CLASSES = {
    "Bound",
    "CallbackErrorHook",
    "CheckCallback",
    "CommitCallback",
    "Deserializer",
    "Form",
    "HeadersLike",
    "MetricsHook",
    "Moment",
    "OffsetLike",
    "OffsetsLike",
    "OptionValue",
    "PartitionLike",
    "PartitionerFunction",
    "PatternLike",
    "Racks",
    "RowsLike",
    "Serializer",
    "Shares",
    "TopicsLike",
    "__version__",
}
PYSPARKS_OWN = {"DataFrame", "SparkSession", "PenstockDataSource"}


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("docs")
    command = [sys.executable, "-m", "sphinx", "-W", "--keep-going", "-q", "-b", "html", "-d", str(folder / "doctrees")]
    ran = subprocess.run(
        [*command, str(DOCS), str(folder / "html")], capture_output=True, text=True, timeout=110, check=False
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder / "html"


def test_every_page_is_there(built: Path) -> None:
    pages = {file.relative_to(DOCS).with_suffix(".html") for file in DOCS.rglob("*.md")}
    assert len(pages) > 30
    assert {page for page in pages if not (built / page).exists()} == set()


def test_every_public_name_stands_in_the_reference(built: Path) -> None:
    with (built / "objects.inv").open("rb") as stream:
        inventory = InventoryFile.load(stream, "", lambda base, path: f"{base}/{path}")
    told = {name.rpartition(".")[2] for kind in ("py:class", "py:function", "py:exception") for name in inventory[kind]}
    public = {*penstock.__all__, *penstock.testing.__all__, *penstock.spark.__all__} - NO_CLASSES - PYSPARKS_OWN
    assert public - told == set()
