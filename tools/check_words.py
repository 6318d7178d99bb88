"""Checks that code, messages and documents use the words of the field: the table of ``STYLE.md`` below "Words".

Run by ``make lint``. The first column of the table has words that are not used, in names and in sentences; the second
has what is written for them. Words that are stored, and those of other programs, keep their names: ``KEPT`` has them.
Tests may quote anything, and are left out.

    python tools/check_words.py            # each place
    python tools/check_words.py --count    # how many in each folder, in all
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path

ROOT = Path(__file__).parent.parent
READ = (
    *("crates/*.rs", "python/*.py", "python/*.pyi", "tools/*.py", "benches/*.py", "web/src/*.ts", "web/src/*.svelte"),
    *("docs/*.md", "README.md", "CONTRIBUTING.md", "STYLE.md"),
)
# ADRs name what they replaced.
LEFT_OUT = (
    *("docs/develop/adr/*", "docs/develop/names.md", "tools/check_words.py", "*/tests/*", "*/tests.rs", "*_tests.rs"),
    *("*.test.ts", "*/fuzz.rs"),
)
# Texts that keep a word, as a pattern, and the files where they do.
KEPT: tuple[tuple[str, str], ...] = (
    ("NotLookedAt", "python/*"),  # an error code on record
    (r"`(?:tests|crates)/[^`]+`", "docs/*"),  # names of tests and files
    (r"(?s)#\[cfg\(test\)\]\s*mod \w+ \{.*\Z", "crates/*"),  # tests at the end of a file
)


@dataclass(frozen=True)
class Rule:
    """A word or phrase that is not used, and what is written for it."""

    text: str
    replacement: str

    def pattern(self) -> re.Pattern[str]:
        """Matches the word as a whole, also within a name: ``told``, ``told_by``, ``isTold``, ``TOLD``."""
        words = self.text.split()
        # A phrase may go on in the next line of a comment.
        low = r"[\s_]+(?:(?:#|//[/!]?|\*)\s+)?".join(map(re.escape, words))
        high = "".join(word.capitalize() for word in words)
        first = rf"[{low[0]}{low[0].upper()}]{low[1:]}"
        upper = re.escape("_".join(words).upper())
        return re.compile(rf"(?<![A-Za-z]){first}(?![a-z])|(?<![A-Z]){high}(?![a-z])|(?<![A-Za-z]){upper}(?![A-Za-z])")


def rules(style: str) -> list[Rule]:
    """The rules of the table below the heading "Words"."""
    section = style.split("\n### Words\n", 1)[1].split("\n#", 1)[0]
    rows = [line.strip("|").split("|") for line in section.splitlines() if line.startswith("|")]
    return [Rule(text.strip(), row[1].strip()) for row in rows[2:] for text in row[0].split(",")]


def found(name: str, text: str, checked: Iterable[Rule]) -> Iterator[tuple[int, str, str]]:
    """Line, word and replacement of each word in this text that the table replaces."""
    kept = [match.span() for what, where in KEPT if fnmatch(name, where) for match in re.finditer(what, text)]
    if name == "STYLE.md":  # the table itself, and the examples beside it
        text = re.sub(r"^\|.*", "", text, flags=re.MULTILINE)
    for rule in checked:
        for match in rule.pattern().finditer(text):
            if not any(start <= match.start() and match.end() <= end for start, end in kept):
                yield text.count("\n", 0, match.start()) + 1, " ".join(match[0].split()), rule.replacement


def files() -> Iterator[str]:
    """Names of the files that are read."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in listed.split("\0"):
        if any(fnmatch(name, one) for one in READ) and not any(fnmatch(name, one) for one in LEFT_OUT):
            yield name


def main() -> int:
    """Print what is found; the exit code is 1 when there is anything."""
    checked = rules((ROOT / "STYLE.md").read_text())
    each = [(name, *one) for name in files() for one in found(name, (ROOT / name).read_text(), checked)]
    if "--count" in sys.argv[1:]:
        for counted in (
            Counter("/".join(name.split("/")[:3]) for name, *_ in each),
            Counter(word.lower() for _, _, word, _ in each),
        ):
            print("\n".join(f"{count:6} {what}" for what, count in counted.most_common()), end="\n\n")
    else:
        print("\n".join(f"{name}:{line}: {word}: write {other}" for name, line, word, other in sorted(each)))
    print(f"{len(each)} words to replace." if each else "Every word is one of the field's.")
    return 1 if each else 0


if __name__ == "__main__":
    sys.exit(main())
