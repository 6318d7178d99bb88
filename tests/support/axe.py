"""axe-core in a tab: what keeps people from using a page with a keyboard, a screen reader or weak eyes."""

from __future__ import annotations

from functools import cache
from typing import Any, Final

from playwright.sync_api import Page

from support.run import ROOT

GRAVE: Final = ("serious", "critical")


@cache
def _source() -> str:
    return (ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text()


def grave_violations(page: Page) -> list[str]:
    """What axe finds in a page as it is now, of its two highest grades: rule, reason and the first place."""
    page.evaluate(_source())
    found: dict[str, Any] = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [_told(one) for one in found["violations"] if one["impact"] in GRAVE]


def _told(violation: dict[str, Any]) -> str:
    node = violation["nodes"][0]
    return f"{violation['id']} ({violation['impact']}): {node['failureSummary']}; {node['html'][:300]}"
