"""Checks that no string of a Rust crate names an option of the command line (``--name``), or speaks of a command.

Run by ``make lint``. An HTTP client or a mount cannot add an option, nor run a command again: the engine says which
step would help by a code (``crates/store/src/error/advice.rs``). Its texts are in ``seqferry.model.messages.steps``.
Programs with their own options, user interfaces, tests and examples are left out.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

CRATES = Path(__file__).parent.parent / "crates"
# User interfaces, which name their commands, and crates that run programs for tests.
INTERFACES = frozenset({"gateway", "mount", "testkit", "store-testing"})
# The endings of names of directory buckets and access points.
NAMES = frozenset({"--x-s3", "--xa-s3", "--op-s3"})

TESTS_AT_END = re.compile(r"#\[cfg\(test\)\]\s*mod \w+ \{.*\Z", re.DOTALL)
# A comment, a character, or a string with what stands in it.
TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|'(?:\\.|[^'\\\n])'|r(\#*)"(?P<raw>.*?)"\1|"(?P<plain>(?:\\.|[^"\\])*)\"""", re.DOTALL
)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
# What only the reader of a command line can do.
COMMAND = re.compile(r"\b(?:commands?|re-?runs?|run(?:s|ning)?\s+(?:it\s+)?again)\b|`seqferry ", re.IGNORECASE)


def command_words(text: str) -> Iterator[tuple[int, str]]:
    """Line and text of each option, and of each word about commands, in a string of this Rust source."""
    text = TESTS_AT_END.sub("", text)
    for token in TOKEN.finditer(text):
        group = "raw" if token["raw"] is not None else "plain"
        for pattern in (OPTION, COMMAND):
            for found in pattern.finditer(token[group] or ""):
                if found[0] not in NAMES:
                    yield text.count("\n", 0, token.start(group) + found.start()) + 1, found[0]


def is_shipped(file: Path) -> bool:
    """True for sources of the engine; False for user interfaces, tests and examples."""
    parts = file.relative_to(CRATES).parts
    is_test = file.stem in {"tests", "test_support"} or file.stem.endswith("_tests") or "tests" in parts
    return parts[0] not in INTERFACES and parts[1] == "src" and not is_test


def main() -> int:
    """Print each string that names an option or a command; the number of the exit code is 1 when there is one."""
    found = [
        f"{file.relative_to(CRATES.parent)}:{line}: {word}: say it by a code of Advice (crates/store/src/error)"
        for file in sorted(CRATES.rglob("*.rs"))
        if is_shipped(file)
        for line, word in command_words(file.read_text())
    ]
    print("\n".join(found) or "No string of the engine names an option or a command.")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
