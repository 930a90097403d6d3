"""Documentation pages with parts that are generated from the code; each part is between two marks.

``python -m tools.marked`` rewrites all parts in place; ``--check`` only checks whether they are up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path

from tools import command_page, instruments_page, metrics_page, option_pages, spark_options, topic_options_page

__all__ = ["DOCS", "PARTS", "main", "rewritten"]

DOCS = Path(__file__).resolve().parent.parent / "docs"
_BEGIN = "<!-- {}: written by ./dev check --fix -->"
_END = "<!-- end of {} -->"

PARTS: Mapping[str, Mapping[str, Callable[[], str]]] = {
    "clients/options.md": {
        "clients": option_pages.clients,
        "consumers": option_pages.consumers,
        "producers": option_pages.producers,
        "elsewhere": option_pages.elsewhere,
    },
    "clients/metrics.md": {"instruments": instruments_page.table},
    "clients/tubemq-options.md": {"tubemq": option_pages.tubemq, "elsewhere": option_pages.tubemq_elsewhere},
    "clients/rocketmq-options.md": {"rocketmq": option_pages.rocketmq, "elsewhere": option_pages.rocketmq_elsewhere},
    "node/options.md": {"node": option_pages.node},
    "node/metrics.md": {"metrics": metrics_page.table, "buckets": metrics_page.buckets},
    "node/topic-options.md": {"topics": topic_options_page.table},
    "command-line.md": {"verbs": command_page.verbs},
    "spark/options.md": {"source": spark_options.source, "sink": spark_options.sink},
}
"""Page under docs/ -> the names of its marks -> the function that generates the text between them."""


def rewritten(page: str, parts: Mapping[str, Callable[[], str]]) -> str:
    """The page with its parts generated anew. Raises SystemExit if a mark is missing."""
    for name, write in parts.items():
        begin, end = _BEGIN.format(name), _END.format(name)
        head, found, rest = page.partition(begin)
        _, closed, tail = rest.partition(end)
        if not found or not closed:
            raise SystemExit(f"a page has lost its marks: {begin} and {end}")
        page = f"{head}{begin}\n\n{write().strip()}\n\n{end}{tail}"
    return page


def main(words: list[str]) -> int:
    stale = []
    for name, parts in PARTS.items():
        text = (DOCS / name).read_text(encoding="utf-8")
        wanted = rewritten(text, parts)
        if text != wanted:
            stale.append(name)
            if "--check" not in words:
                (DOCS / name).write_text(wanted, encoding="utf-8")
    if "--check" in words and stale:
        print(f"not what the code says: docs/{', docs/'.join(stale)}; run ./dev check --fix")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
