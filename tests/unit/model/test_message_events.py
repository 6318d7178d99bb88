"""Texts of events, which the page and receipts show."""

from __future__ import annotations

from typing import Any

import pytest

from seqferry.model.messages.events import event_text

LIMITS: dict[str, Any] = {"priority": 0, "max_requests": None, "max_bandwidth": "50MB", "tpslimit": None}


@pytest.mark.parametrize(
    ("kind", "data", "text"),
    [
        ("paused", {}, "paused the transfer"),
        ("adjusted", LIMITS, "set priority 0, max bandwidth 50MB"),
        ("adjusted", {}, "set no limits"),
        ("described", {"name": None, "labels": {"project": "X"}}, "removed its name, with the labels project=X"),
        ("described", {"name": "Run 43", "labels": {}}, "named it “Run 43”"),
        ("described", {"labels": "no labels"}, "described"),
        ("verified", {"objects": 1, "same": 1}, "the target was verified: 1 object as received"),
        (
            "verified",
            {"objects": 3, "same": 2, "how": "content"},
            "the target was verified, all bytes read: 2 of 3 objects as received",
        ),
        ("of_a_later_version", {}, "of a later version"),
    ],
)
def test_an_event_has_a_text(kind: str, data: dict[str, Any], text: str) -> None:
    assert event_text(kind, data) == text


def test_an_adjustment_names_what_it_changed_where_the_limits_before_are_known() -> None:
    assert event_text("adjusted", LIMITS, {"priority": 0}) == "set max bandwidth 50MB"
    assert event_text("adjusted", {**LIMITS, "max_bandwidth": None}, LIMITS) == "set max bandwidth none"
    assert event_text("adjusted", LIMITS, LIMITS) == "set nothing"
