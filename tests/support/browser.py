"""The page in Chromium: a tab that fails its test on errors of scripts, violations of the policy, and foreign requests.

Seqferry's own fixtures, over Playwright's synchronous interface and the browser of the machine.
"""

from __future__ import annotations

import os
import shutil
from typing import Any, Final
from urllib.parse import urlsplit

from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request, expect, sync_playwright

from support.run import ROOT, MissingToolError

PHONE: Final = {"width": 390, "height": 844}
DESK: Final = {"width": 1280, "height": 860}
DEADLINE: Final = 20_000
"""Milliseconds that actions and expectations wait at most. Playwright's 5 seconds are short on a busy machine."""
_OF_ANSWERS: Final = "Failed to load resource"
"""The console's word for an answer of 400 and more, or for none. The page shows those itself."""

expect.set_options(timeout=DEADLINE)


class Chromium:
    """A running browser, for many contexts."""

    def __init__(self) -> None:
        """Starts it.

        Raises:
            MissingToolError: there is no browser, or no page to show.
        """
        if not (ROOT / "python" / "seqferry" / "api" / "page" / "index.html").is_file():
            raise MissingToolError("the page is not built: install Node 20.19 or newer and run `make build`")
        program = shutil.which("chromium")
        if program is None:
            raise MissingToolError("chromium is not installed (Debian: apt-get install chromium)")
        self._playwright = sync_playwright().start()
        arguments = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.browser: Browser = self._playwright.chromium.launch(executable_path=program, args=arguments)

    def close(self) -> None:
        self.browser.close()
        self._playwright.stop()


class Tab:
    """A tab of its own profile. ``troubles`` has to be empty at the end of a test."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        """Args: ``address`` is that of the page, without a fragment; ``options`` are those of a context."""
        self.address = address
        self.troubles: list[str] = []
        self._hosts = {urlsplit(address).netloc}
        given: dict[str, Any] = {
            "viewport": DESK,
            "locale": "en-GB",
            "timezone_id": "Europe/Berlin",
            "reduced_motion": "reduce",
            **options,
        }
        self.context: BrowserContext = browser.new_context(**given)
        self.context.set_default_timeout(DEADLINE)
        self.page: Page = self.context.new_page()
        self.page.on("pageerror", lambda error: self.troubles.append(f"error: {error}"))
        self.page.on("console", self._heard)
        self.page.on("request", self._asked)

    def open(self, fragment: str = "#/") -> Page:
        self.page.goto(f"{self.address}{fragment}")
        return self.page

    def sign_in(self, token: str, fragment: str = "#/") -> Page:
        """Open a view with a token, as a person does."""
        page = self.open(fragment)
        page.get_by_label("Token").fill(token)
        page.get_by_role("button", name="Sign in").click()
        return page

    def assert_untroubled(self) -> None:
        assert not self.troubles, self.troubles

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(_OF_ANSWERS):
            self.troubles.append(f"{message.type}: {message.text}")

    def _asked(self, request: Request) -> None:
        if urlsplit(request.url).netloc not in self._hosts:
            self.troubles.append(f"request to another host: {request.url}")
