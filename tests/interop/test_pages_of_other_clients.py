"""What the pages "coming from" show of other clients works: run as it is printed, on our node."""

from __future__ import annotations

import pytest

from tests.docs.test_examples import DOCS, a_node, addressed, blocks, pages_with

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore::DeprecationWarning")]  # of their own code

CASES = [(page, line) for page in pages_with("py") for _, _, line in blocks(DOCS / page, "py")]


@pytest.mark.parametrize(("page", "line"), CASES)
def test_another_clients_program_runs(page: str, line: int) -> None:
    (code,) = (text for _, text, begin in blocks(DOCS / page, "py") if begin == line)
    with a_node() as node:
        exec(compile("\n" * (line - 1) + addressed(code, node), page, "exec"), {"__name__": "page"})
