"""The lint of words: it finds a word in each form that names and sentences give it."""

from __future__ import annotations

import check_words
import pytest

STYLE = """
### Words

| not | but |
|---|---|
| told | reported |
| at once, for ever | immediately |

## Sentences
"""


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("it was told, Told by none", ["told", "Told"]),
        ("told_by isTold TOLD_BY Told", ["told", "Told", "TOLD", "Told"]),
        ("retold, tolder, Toldo, UNTOLD", []),
        ("starts at once", ["at once"]),
        ("fn at_once() AtOnce", ["at_once", "AtOnce"]),
        ("/// kept for\n    /// ever", ["for /// ever"]),
        ("# kept for\n# ever", ["for # ever"]),
        ("for every", []),
    ],
)
def test_a_word_is_found_in_names_and_sentences(text: str, words: list[str]) -> None:
    found = check_words.found("crates/store/src/lib.rs", text, check_words.rules(STYLE))

    assert sorted(word for _, word, _ in found) == sorted(words)


def test_the_line_and_the_replacement_are_named() -> None:
    assert list(check_words.found("a.py", "one\ntwo told\n", check_words.rules(STYLE))) == [(2, "told", "reported")]


def test_the_table_of_the_style_guide_is_read() -> None:
    checked = check_words.rules((check_words.ROOT / "STYLE.md").read_text())

    assert len(checked) > 20
    assert all(rule.text and rule.replacement for rule in checked)
