"""What every test shares: how many examples Hypothesis draws, and the header line that says which kernel runs.

Fixtures of one folder live in that folder's conftest. Nothing here imports numpy, numba or pyspark:
most tests need none of them.
"""

import os
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Verbosity, settings

# ci: few examples and always the same ones, so that a red build is red again on the next machine.
# exhaustive: HYPOTHESIS_PROFILE=exhaustive, for a change in the code under test or for a night.
settings.register_profile("ci", max_examples=30, derandomize=True, deadline=None, print_blob=True)
settings.register_profile(
    "exhaustive",
    max_examples=2_000,
    deadline=None,
    verbosity=Verbosity.normal,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))


# Spark starts its workers by name, "python3" unless told; they must be this Python where pytest runs without ./dev too.
os.environ.setdefault("PYSPARK_PYTHON", sys.executable)

# Starters of real servers, and of Spark; a plugin named here is available in every folder below.
pytest_plugins = [
    "tests.interop.peers.fixtures",
    "tests.interop.peers.rocketmq_fixtures",
    "tests.interop.peers.tubemq_fixtures",
    "tests.spark.sessions",
]


@pytest.fixture(scope="session", autouse=True)
def scratch() -> Iterator[Path]:
    """One folder for what programs leave in the system's temporary one, killed JVMs above all; it goes at last.

    Not under pytest's own: the path of a Unix domain socket has 104 characters at most, and Spark puts some there.
    """
    with (
        tempfile.TemporaryDirectory(prefix="pst", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as to,
    ):
        to.setattr(tempfile, "tempdir", folder)
        for name in ("TMPDIR", "SPARK_LOCAL_DIRS"):
            to.setenv(name, folder)
        to.setenv("SPARK_SUBMIT_OPTS", f"-Djava.io.tmpdir={folder} -XX:-UsePerfData")
        yield Path(folder)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files whose tests wait long come first: others compute beside them, and none of them is left for the end."""
    waiting = {item.path for item in items if item.get_closest_marker("spark") or "chaos" in item.path.parts}
    items.sort(key=lambda item: item.path not in waiting)


def kernel_in_use() -> str:
    """The implementation ``penstock.kernels`` picks in this environment, without importing it."""
    forced = os.environ.get("PENSTOCK_KERNEL")
    if forced:
        return f"{forced} (PENSTOCK_KERNEL)"
    return "numba (pure for small pieces)" if find_spec("numba") else "pure (numba is not installed)"


def pytest_report_header(config: pytest.Config) -> str:
    """One line: a failure report without it cannot be reproduced."""
    del config
    profile = os.environ.get("HYPOTHESIS_PROFILE", "ci")
    return f"penstock: kernel {kernel_in_use()}, hypothesis profile {profile}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """An interop run says how much of it did not happen, and why: a green run with everything skipped is not green."""
    if not config.getoption("markexpr").startswith("interop"):
        return
    skipped = terminalreporter.stats.get("skipped", [])
    ran = sum(len(terminalreporter.stats.get(outcome, [])) for outcome in ("passed", "failed", "xfailed", "xpassed"))
    terminalreporter.section("interop")
    terminalreporter.line(f"{ran} ran, {len(skipped)} skipped")
    reasons = Counter(str(report.longrepr[2]).removeprefix("Skipped: ").partition("\n")[0] for report in skipped)
    for reason, times in reasons.most_common():
        terminalreporter.line(f"  {times} skipped: {reason}")
