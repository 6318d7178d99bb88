"""Names, sizes and times as a person sees them."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from seqferry.cli.output import text


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        ("run42/HG002_S1_L001_R1_001.fastq.gz", "run42/HG002_S1_L001_R1_001.fastq.gz"),
        ("Müller – 試料.txt", "Müller – 試料.txt"),
        ("two\nlines\tand\rmore", "two\\nlines\\tand\\rmore"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("evil\u202etxt.exe", "evil\\u202etxt.exe"),
        ("zero\u200bwidth", "zero\\u200bwidth"),
        ("line\u2028separator", "line\\u2028separator"),
        ("\u0301first", "\\u0301first"),
        ("e\u0301", "e\u0301"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("lone\ud800", "lone\\ud800"),
        ("[bold]markup[/bold]", "[bold]markup[/bold]"),
        ("", ""),
    ],
)
def test_names_are_printed_without_anything_a_terminal_acts_upon(name: str, shown: str) -> None:
    assert text.printable(name) == shown


@given(st.text())
def test_printable_text_holds_no_control_or_format_character(name: str) -> None:
    shown = text.printable(name)

    assert "\n" not in shown
    assert not {unicodedata.category(character) for character in shown} & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@given(st.text(max_size=200), st.integers(min_value=0, max_value=80))
def test_shortened_names_fit(name: str, width: int) -> None:
    assert cell_len(text.shorten(name, width)) <= width


def test_shortening_keeps_both_ends() -> None:
    assert text.shorten("fastq/HG002_S1_L001_R1_001.fastq.gz", 21) == "fastq/HG00…1.fastq.gz"
    assert text.shorten("試料試料試料試料.fastq.gz", 17) == "試料試料…fastq.gz"


@pytest.mark.parametrize(
    ("count", "shown"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536, "1.5 KiB"),
        (1024**2 - 1, "1.0 MiB"),
        (128 * 1024**2, "128.0 MiB"),
        (11.88 * 1024**4, "11.9 TiB"),
        (2 * 1024**7, "2048.0 EiB"),
    ],
)
def test_sizes_are_iec(count: float, shown: str) -> None:
    assert text.size(count) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (-1, "0.0 s"),
        (4.21, "4.2 s"),
        (59.96, "1 min 00 s"),
        (187, "3 min 07 s"),
        (7500, "2 h 05 min"),
        (3 * 86400 + 4 * 3600, "3 d 04 h"),
    ],
)
def test_durations_use_two_units_at_most(seconds: float, shown: str) -> None:
    assert text.duration(seconds) == shown


def test_times_are_rfc_3339_in_utc() -> None:
    assert text.timestamp(0) == "1970-01-01T00:00:00Z"
    assert text.timestamp(1795252715.25, milliseconds=True) == "2026-11-21T09:18:35.250Z"
    assert text.optional_timestamp(None) is None
