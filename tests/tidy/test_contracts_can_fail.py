"""contracts.toml protects the tree only if each contract would notice: break each one in an empty copy of the tree."""

import os
import re
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CONTRACTS = ROOT / "contracts.toml"

# Contract id -> (module that sins, its import). One each; the sets must be equal, so a new contract needs a line here.
VIOLATIONS: Mapping[str, tuple[str, str]] = {
    "client-needs": ("client", "import penstock.store"),
    "kernel-choice": ("records", "import penstock.kernels._pure"),
    "kernels-need": ("kernels", "import penstock.config"),
    "layers": ("model", "import penstock.cli"),
    "net-needs": ("net", "import penstock.kernels"),
    "own-kernel-choice": ("protocols.alpha", "import penstock.protocols.alpha.kernels._pure"),
    "no-io": ("groups", "import time"),
    "numba": ("records", "import numba"),
    "protocols-apart": ("protocols.alpha", "import penstock.protocols.beta"),
    "protocols-need": ("protocols", "import penstock.net"),
    "pyspark": ("cli", "import pyspark"),
    "registry": ("snode", "import penstock.protocols.alpha"),
    "spark-needs": ("spark", "import penstock.protocols"),
    "store-needs": ("store", "import penstock.interfaces.wire"),
    "wire-needs": ("interfaces.wire", "import numpy"),
    "wire-users": ("snode", "import penstock.interfaces.wire"),
}


def contracts() -> dict[str, str]:
    table = tomllib.loads(CONTRACTS.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return {contract["id"]: contract["name"] for contract in table}


def layers() -> list[str]:
    table = tomllib.loads(CONTRACTS.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    return re.findall(r"\w+", " ".join(table[0]["layers"]))


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """An empty package for every module that the layers name, two protocols, two kernels twice."""
    homes = ("kernels", "protocols.alpha.kernels")
    kernels = [f"{home}{which}" for home in homes for which in ("", "._numba", "._pure")]
    names = [*layers(), "interfaces.framing", "interfaces.wire", "protocols.alpha", "protocols.beta", *kernels]
    for name in ["", *names]:
        file = tmp_path.joinpath("penstock", *name.split(".")) / "__init__.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("")
    return tmp_path


def lint(tree: Path) -> str:
    command = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    run = subprocess.run(
        [sys.executable, "-c", command, "--config", str(CONTRACTS), "--no-cache"],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": str(tree), "COLUMNS": "200", "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    return run.stdout + run.stderr


def verdicts(report: str) -> dict[str, str]:
    return dict(re.findall(r"^(.+?)\s+(KEPT|BROKEN)", report, re.MULTILINE))


def test_an_innocent_tree_keeps_every_contract(tree: Path) -> None:
    report = lint(tree)
    assert verdicts(report) == dict.fromkeys(contracts().values(), "KEPT"), report


def test_every_contract_notices_its_violation(tree: Path) -> None:
    assert set(VIOLATIONS) == set(contracts())
    for module, line in VIOLATIONS.values():
        with tree.joinpath("penstock", *module.split("."), "__init__.py").open("a") as file:
            file.write(line + "\n")
    report = lint(tree)
    assert verdicts(report) == dict.fromkeys(contracts().values(), "BROKEN"), report


def test_a_module_without_a_place_is_noticed(tree: Path) -> None:
    (tree / "penstock" / "newcomer.py").write_text("")
    report = lint(tree)
    assert verdicts(report)[contracts()["layers"]] == "BROKEN"
    assert "newcomer" in report
