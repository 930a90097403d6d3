"""docs/spark says what the code does: its option tables are the code's, and every page that shows code is run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock.spark._options import parse_options
from penstock.spark._sink_options import SINK_OPTIONS, parse_sink_options
from tests.spark.pages import FOLDER, PAGES, SERVER, Page
from tools import marked, spark_options

TESTS = Path(__file__).parents[2]
OPTIONS = (marked.DOCS / "spark" / "options.md").read_text(encoding="utf-8")
PARTS = marked.PARTS["spark/options.md"]
ADDRESS = "kafka://broker:9092/orders"


def test_option_tables_are_those_of_the_code() -> None:
    assert marked.rewritten(OPTIONS, PARTS) == OPTIONS, "run ./dev check --fix"


@pytest.mark.parametrize("change", ["lacks one", "has one too many"])
def test_table_that_differs_from_the_code_is_noticed(change: str) -> None:
    row = next(line for line in OPTIONS.splitlines(keepends=True) if line.startswith("| `endingTimestamp`"))
    wrong = OPTIONS.replace(row, "" if change == "lacks one" else row + row.replace("endingTimestamp", "endingTime"))
    assert marked.rewritten(wrong, PARTS) == OPTIONS


def test_option_without_a_place_in_the_tables_is_noticed() -> None:
    with pytest.raises(SystemExit, match="newOption"):
        spark_options.table(spark_options.SINK, {**SINK_OPTIONS, "newOption": "is new"}, {})


@pytest.mark.parametrize(("name", "default"), spark_options.SOURCE_DEFAULTS.items())
def test_default_of_the_source_is_as_told(name: str, default: str) -> None:
    given = {"path": ADDRESS}
    if name == "maxTriggerDelay":  # has a meaning only beside another option
        given["minOffsetsPerTrigger"] = "1"
    assert parse_options({**given, name: default}) == parse_options(given)


@pytest.mark.parametrize(("name", "default"), spark_options.SINK_DEFAULTS.items())
def test_default_of_the_sink_is_as_told(name: str, default: str) -> None:
    given = {"path": ADDRESS}
    assert parse_sink_options({**given, name: default}) == parse_sink_options(given)


def test_every_page_that_shows_code_is_run_by_a_test() -> None:
    shown = {
        path.relative_to(PAGES).with_suffix("").as_posix()
        for path in PAGES.rglob("*.md")
        if any(
            block.language in {"python", "sql"} for block in Page(str(path.relative_to(PAGES).with_suffix(""))).blocks
        )
    }
    tests = "".join(path.read_text(encoding="utf-8") for path in TESTS.rglob("test_*.py"))
    assert shown
    assert shown - set(re.findall(r'Page\("([\w/-]+)"\)', tests)) == set()


def test_pages_name_one_server_and_one_folder() -> None:
    strange = {
        (path.name, word)
        for path in PAGES.rglob("*.md")
        for block in Page(str(path.relative_to(PAGES).with_suffix(""))).blocks
        if block.language in {"python", "sql", "yaml"}
        for word in re.findall(r"kafka://[\w.:]+|(?<=[\"':/])/[a-z]+(?=/)", block.text)
        if word not in {SERVER, FOLDER}
    }
    assert strange == set()
