"""Ids of transfers as people give them."""

from __future__ import annotations

import pytest

from seqferry.model.errors import ConflictError, NotFoundError
from seqferry.service import base, queries

_WHOLE = "3f2a8c1e-0000-4000-8000-000000000000"


@pytest.mark.parametrize(
    ("text", "start"),
    [(_WHOLE, _WHOLE), ("3f2a", "3f2a"), (" 3F2A8C1E- ", "3f2a8c1e-"), ("----", "----"), ("beef", "beef")],
)
def test_a_start_of_an_id_is_taken_in_any_case(text: str, start: str) -> None:
    assert base.is_id_prefix(text)
    assert base.parse_id_prefix(text) == start


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "no transfer ''"),
        ("  ", "no transfer"),
        ("run42", "no transfer 'run42'"),
        ("3f2_", "no transfer"),
        ("３ｆ２ａ", "no transfer"),
        ("٣٣٣٣", "no transfer"),
        ("3f2%", "no transfer"),
        ("3f2", "is too short"),
        ("a", "is too short"),
    ],
)
def test_other_texts_are_no_start_of_an_id(text: str, said: str) -> None:
    assert not base.is_id_prefix(text)
    with pytest.raises(NotFoundError, match=said):
        base.parse_id_prefix(text)


@pytest.mark.parametrize(("found", "expected"), [(0, None), (7, None), (0, 0), (7, 7)])
def test_a_selection_of_the_expected_number_is_acted_upon(found: int, expected: int | None) -> None:
    queries.check_count(found, expected)


@pytest.mark.parametrize(("found", "expected"), [(1, 0), (0, 1), (1234, 1233)])
def test_a_selection_of_another_number_is_refused(found: int, expected: int) -> None:
    with pytest.raises(ConflictError, match="^" + f"{found:,} records are selected now, and {expected:,} were"):
        queries.check_count(found, expected, "record")


@pytest.mark.parametrize(
    ("limit", "size"), [(-1, 1), (0, 1), (1, 1), (50, 50), (10_000, 10_000), (10_001, 10_000), (10**12, 10_000)]
)
def test_a_page_has_an_entry_at_least_and_a_bound(limit: int, size: int) -> None:
    assert queries._page_size(limit) == size
