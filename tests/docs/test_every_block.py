"""No block of README and docs is left out in silence: each kind of block on each page has a test that runs it, or a
reason why nobody can. A page or a language that is new fails here until somebody says which."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FENCE = re.compile(r"^ *```(\w+)", re.MULTILINE)
HERE, SPARK = "tests/docs/test_examples.py", "tests/spark/test_recipes.py"
EVERYWHERE = "tests/interop/test_spark_everywhere.py"
CLIENTS = "tests/interop/test_pages_of_other_clients.py"

RUN_BY = {
    ("README.md", "python"): "tests/docs/test_readme.py",
    ("spark/", "python"): SPARK,
    ("spark/recipes/watching.md", "python"): "tests/spark/test_watching_recipe.py",
    ("spark/recipes/delta.md", "python"): EVERYWHERE,
    ("spark/recipes/iceberg.md", "python"): EVERYWHERE,
    ("spark/recipes/pipelines.md", "python"): EVERYWHERE,
    ("spark/recipes/pipelines.md", "yaml"): EVERYWHERE,
    ("spark/recipes/pipelines.md", "sh"): EVERYWHERE,
    ("spark/recipes/sql.md", "sql"): SPARK,
    ("spark/migrating.md", "sh"): SPARK,
    ("coming-from/", "py"): CLIENTS,
    ("", "python"): HERE,
    ("", "sh"): HERE,
    ("", "toml"): HERE,
    ("clients/tubemq.md", "ini"): HERE,
}
"""Page, or how pages begin, and language: the longest one counts."""

NOT_RUN = {
    ("node/metrics.md", "yaml"): "settings of Prometheus and of an orchestrator, which no test starts",
    ("node/service.md", "ini"): "a unit for systemd, which no test may install",
    (
        "testing/other-languages.md",
        "java",
    ): "test code for projects with a JVM and their build; its calls are Kafka's own",
    ("testing/other-languages.md", "go"): "needs a Go toolchain and modules",
    ("testing/other-languages.md", "js"): "needs Node.js and packages",
    ("coming-from/tubemq.md", "java"): "TubeMQ's Java, shown for comparison; Java clients run in tests/interop/tubemq",
    ("spark/migrating.md", "diff"): "the lines that change in a program; the program with them is run below it",
    ("", "text"): "what a command prints, and help texts, which ./dev check writes",
}


def pages() -> list[Path]:
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def name_of(page: Path) -> str:
    return page.name if page.parent == ROOT else page.relative_to(ROOT / "docs").as_posix()


def row(page: str, language: str, table: dict[tuple[str, str], str]) -> tuple[str, str] | None:
    found = [(begin, of) for begin, of in table if of == language and page.startswith(begin)]
    return max(found, default=None)


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_each_block_is_run_or_has_a_reason(page: Path) -> None:
    languages = set(FENCE.findall(page.read_text(encoding="utf-8")))
    both = {each: (row(name_of(page), each, RUN_BY), row(name_of(page), each, NOT_RUN)) for each in languages}
    assert {each for each, rows in both.items() if (rows[0] is None) == (rows[1] is None)} == set()


def test_no_row_is_left_of_a_page_that_is_gone() -> None:
    there = {(name_of(page), each) for page in pages() for each in FENCE.findall(page.read_text(encoding="utf-8"))}
    used = {row(*each, RUN_BY) for each in there} | {row(*each, NOT_RUN) for each in there}
    assert {*RUN_BY, *NOT_RUN} - used == set()
    assert {file for file in RUN_BY.values() if not (ROOT / file).exists()} == set()
