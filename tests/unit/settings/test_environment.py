"""Variables of the AWS tools without a value: as a container gets them from a template whose value is not there."""

from __future__ import annotations

import os

import pytest

from seqferry.settings import environment


def test_aws_variables_that_are_set_to_nothing_are_not_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_ENDPOINT_URL", "AWS_REGION", "AWS_PROFILE", "AWS_SESSION_TOKEN", "AWS_CONFIG_FILE", "XDG_ANY"):
        monkeypatch.setenv(name, "")
    monkeypatch.setenv("AWS_CA_BUNDLE", "/etc/bundle")
    before = dict(os.environ)

    environment.prepare()

    gone = {name for name in before if name not in os.environ}
    assert gone == {name for name, value in before.items() if name.startswith("AWS_") and not value}
    assert len(gone) >= 5
    assert os.environ["AWS_CA_BUNDLE"] == "/etc/bundle"
    assert os.environ["XDG_ANY"] == ""
