"""Events in words: the receipt and the page say the same of each."""

from __future__ import annotations

import re

from seqferry.proof.receipt_page import ACTS
from support.run import ROOT


def test_the_page_and_the_receipt_have_the_same_words() -> None:
    text = (ROOT / "web" / "src" / "lib" / "events.ts").read_text()
    block = text.partition("const ACTS")[2].partition("\n}")[0]
    assert dict(re.findall(r"^  (\w+): '(.*)',$", block, re.MULTILINE)) == dict(ACTS)
