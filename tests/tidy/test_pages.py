"""README, ARCHITECTURE and the rest say what is true: commands exist, links lead somewhere, no machine's paths."""

import re

from tests.tidy.tree import ROOT, name, text, tracked
from tools.dev import VERBS

PAGES = ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/limitations.md", ".ci/run")

# In pieces, so that this file does not find itself. Folders of one machine, and addresses of package indexes: what
# builds here must build anywhere, from wherever that machine gets its packages.
FOREIGN = [
    "".join(pieces)
    for pieces in (
        ("/wo", "rk/"),
        ("/ro", "ot/"),
        ("/fa", "rm/"),
        ("/home", "/"),
        ("index", "-url"),
        ("find", "-links"),
        ("PIP_", "INDEX"),
        ("pypi", ".org"),
        ("python", "hosted"),
        ("repo1", ".maven"),
        ("repo.maven", ".apache"),
    )
]


def test_every_command_a_page_names_exists() -> None:
    named = {
        (page, verb)
        for page in PAGES
        for verb in re.findall(r"\./dev ([a-z][a-z-]*)", text(ROOT / page))
        if verb not in VERBS
    }
    assert named == set()


def test_every_penstock_verb_a_page_shows_exists() -> None:
    from penstock.cli.app import ABOUT

    shown = {(page, verb) for page in PAGES for verb in re.findall(r"^ {4}penstock ([a-z]+)", text(ROOT / page), re.M)}
    assert {(page, verb) for page, verb in shown if verb not in ABOUT} == set()


def test_the_readme_names_every_command() -> None:
    assert {verb for verb in VERBS if f"./dev {verb}" not in text(ROOT / "README.md")} == set()


def test_the_architecture_fits_one_sitting() -> None:
    assert len(text(ROOT / "ARCHITECTURE.md")) < 16_000, "traps of one folder belong into its README.md"


def test_every_relative_link_leads_somewhere() -> None:
    broken = {
        (name(page), target)
        for page in tracked()
        if page.suffix == ".md"
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", text(page))
        if "://" not in target and not (page.parent / target).exists()
    }
    assert broken == set()


def test_every_path_a_page_names_is_there() -> None:
    named = {
        (page, path)
        for page in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")
        for path in re.findall(r"`((?:tests|tools|bench|docs|src|requirements)/[\w/.-]*)`", text(ROOT / page))
    }
    assert len(named) > 20
    assert {(page, path) for page, path in named if not (ROOT / path).exists()} == set()


def test_no_file_speaks_of_one_machine() -> None:
    found = {
        f"{name(file)}: {word}"
        for file in tracked()
        if b"\0" not in (content := file.read_bytes()) and file.suffix != ".jsonl"
        for word in FOREIGN
        if word.encode() in content
    }
    assert found == set()


def test_every_module_the_architecture_names_is_there() -> None:
    folders = [folder.name for folder in (ROOT / "src/penstock").iterdir() if folder.is_dir()]
    named = re.findall(rf"`((?:{'|'.join(folders)})/[\w/]+)", text(ROOT / "ARCHITECTURE.md"))
    assert len(named) > 30
    there = [ROOT / "src/penstock" / path for path in named]
    assert [path for path in there if not (path.exists() or path.with_suffix(".py").exists())] == []
