"""Shares that instruments would refuse, told of before an instrument does."""

from __future__ import annotations

from typing import Any

import pytest

from seqferry.doctor.shares import find_problems
from seqferry.settings.shares import Share

FITTING: dict[str, Any] = {"name": "runs", "source": "s3://b/runs/", "clients": ("10.1.2.0/24",), "squash": "all"}


def share(**keys: Any) -> Share:
    return Share(**{**FITTING, **keys}, read_only=False)


def test_a_share_that_fits_has_no_troubles() -> None:
    assert list(find_problems(share())) == []
    assert list(find_problems(share(squash="root", directory_mode=0o777))) == []
    assert list(find_problems(share(squash="root", directory_mode=0o775))) == []


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"name": "runs$"}, "$ in its name"),
        ({"free_space": 1 << 30}, "1.0 GiB of free space"),
        ({"squash": "root"}, "Only user 65534 may create files in its top folder (directory_mode 0755)"),
        ({"squash": "none", "uid": 0}, "Only user 0 may"),
        ({"uid": 1000}, "All clients are mapped to user 65534, and only user 1000"),
        ({"clients": ()}, "Only programs on this machine"),
    ],
)
def test_each_trouble_is_one_text_with_advice(keys: dict[str, Any], said: str) -> None:
    [trouble] = find_problems(share(**keys))
    assert said in trouble.text
    assert trouble.advice.endswith(".")
