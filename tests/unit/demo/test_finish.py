"""The exit code: zero only if every cell is right and the group has read everything."""

from __future__ import annotations

import io
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import compute, parquet

from penstock.demo.delays import expected_delays
from penstock.demo.run import _OURS, Report, _finish, _forget, opener
from penstock.model import Partition


@pytest.mark.parametrize(
    ("wrong", "lag", "code"), [([], 0, 0), (["window x: flights is 1, expected 2"], 0, 1), ([], 3, 1)]
)
def test_exit_code(table: pa.Table, tmp_path: Path, wrong: list[str], lag: int, code: int) -> None:
    delays = expected_delays(table.slice(0, 2_000))
    output = io.StringIO()
    report = Report(output)
    assert _finish(tmp_path, delays, wrong, {Partition("flights", 0): lag}, report) == code
    assert parquet.read_table(tmp_path / "delays.parquet").equals(delays)
    assert (tmp_path / "delays.png").stat().st_size > 10_000
    text = output.getvalue()
    assert f"lag of group delays: {lag} records" in text
    assert ("WRONG: window x" in text) == bool(wrong)
    assert ("every cell equals" in text) != bool(wrong)
    assert "EWR" in text
    assert "write and draw" in text
    assert text.index("What to try next") > text.index("delays.png")
    assert "penstock groups describe kafka://127.0.0.1:9092 delays" in text


def test_fresh_deletes_what_is_ours_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "segment").touch()
    (tmp_path / "delays.parquet").touch()
    (tmp_path / "thesis.odt").touch()
    (tmp_path / ".store.forgotten" / "left by a kill").mkdir(parents=True)
    _forget(tmp_path, *_OURS)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.odt"]


def test_the_table_is_of_all_that_is_there(table: pa.Table) -> None:
    delays = expected_delays(table)
    output = io.StringIO()
    Report(output).delays(delays)
    text = output.getvalue()
    assert all(carrier in text for carrier in compute.unique(delays["carrier"]).to_pylist())
    # Each airport's flights and each carrier's are all flights.
    assert text.count(f"{sum(delays['flights'].to_pylist()):,}") >= 2


@pytest.mark.parametrize(
    ("platform", "environment", "program"),
    [
        ("linux", {"DISPLAY": ":0"}, "xdg-open"),
        ("linux", {"WAYLAND_DISPLAY": "wayland-0"}, "xdg-open"),
        ("linux", {}, None),
        ("darwin", {}, "open"),
        ("darwin", {"SSH_CONNECTION": "1 2 3 4"}, None),
    ],
)
def test_a_picture_is_opened_where_there_is_a_desktop(
    platform: str, environment: dict[str, str], program: str | None
) -> None:
    assert opener(platform, environment) == program
