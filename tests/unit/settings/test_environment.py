"""The environment of a command as it prepares it."""

from __future__ import annotations

import os

import pytest

from seqferry.settings import environment


@pytest.mark.parametrize(
    ("name", "value", "stays"),
    [
        ("AWS_REGION", "", False),
        ("AWS_SECRET_ACCESS_KEY", "", False),
        ("AWS_REGION", "eu-west-1", True),
        ("AWS_REGION", " ", True),
        ("SEQFERRY_STATE_DIR", "", True),
        ("MY_AWS_REGION", "", True),
    ],
)
def test_a_variable_of_aws_without_a_value_is_not_set(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, stays: bool
) -> None:
    monkeypatch.setenv(name, value)

    environment.prepare()

    assert (os.environ.get(name) == value) is stays
