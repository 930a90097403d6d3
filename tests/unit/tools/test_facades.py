"""Synchronous methods are what tools/facades.py makes of the asynchronous ones; a change of these is noticed."""

from __future__ import annotations

import pytest

from tools.facades import CLIENT, FACADES, Facade, rewritten


@pytest.mark.parametrize("facade", FACADES, ids=lambda facade: facade.name)
def test_what_is_checked_in_is_up_to_date(facade: Facade) -> None:
    text = (CLIENT / facade.module).read_text(encoding="utf-8")
    assert rewritten(text, facade) == text


def test_a_changed_docstring_reaches_the_synchronous_class() -> None:
    (admin,) = (facade for facade in FACADES if facade.name == "Admin")
    text = (CLIENT / admin.module).read_text(encoding="utf-8")
    words = '"""Delete topics with all their records. Raises ServerError."""'
    changed = text.replace(words, words.replace("Delete", "Remove"), 1)
    assert rewritten(changed, admin).count('"""Remove topics with all their records.') == 2


def test_a_class_without_its_mark_is_refused() -> None:
    with pytest.raises(SystemExit, match="has lost its mark"):
        rewritten("class Admin: ...\n", FACADES[0])
