"""Findings of checks, each with its next step."""

from __future__ import annotations

from typing import Literal

from seqferry.model.frozen import frozen

Level = Literal["ok", "warning", "problem"]


@frozen
class Finding:
    """The result of one check. All levels but ``ok`` have an ``advice``."""

    topic: str
    level: Level
    text: str
    advice: str | None = None
    age_seconds: float | None = None
    """Age of a fact about an endpoint, since it was found."""
