"""Storage classes by their names."""

from __future__ import annotations

import pytest

from seqferry.cost import classes
from seqferry.model.errors import UsageError


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("STANDARD", "STANDARD"),
        ("standard_ia", "STANDARD_IA"),
        ("deep-archive", "DEEP_ARCHIVE"),
        (" Glacier-IR ", "GLACIER_IR"),
    ],
)
def test_a_class_is_found_in_any_case_with_dashes_or_without(written: str, name: str) -> None:
    assert classes.find_class(written, "--storage-class") is classes.CLASSES[name]


@pytest.mark.parametrize("written", ["", "STANDARDIA", "S3", "DEEP ARCHIVE"])
def test_an_unknown_class_is_refused_with_those_that_there_are(written: str) -> None:
    with pytest.raises(UsageError, match=r"^--class: there is no storage class .* DEEP_ARCHIVE") as refused:
        classes.find_class(written, "--class")

    assert all(name in refused.value.message for name in classes.CLASSES)
