"""Files of tests are imported by their names: two of one name cannot be run together."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

TESTS = Path(__file__).parents[1]


def test_each_file_of_tests_has_a_name_of_its_own() -> None:
    names = Counter(path.name for path in TESTS.rglob("test_*.py"))

    assert [name for name, files in names.items() if files > 1] == []
