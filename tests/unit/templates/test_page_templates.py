"""The environment of the pages: values are no markup, and what is missing is an error."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import jinja2
import pytest

from seqferry.templates import environment


def rendered(folder: Path, text: str, **values: object) -> str:
    (folder / "one.html").write_text(text)
    return environment.render("one.html", folder=folder, **values)


def test_values_are_no_markup(tmp_path: Path) -> None:
    page = rendered(tmp_path, '<p title="{{ value }}">{{ value }}', value="<script>'\"&")

    assert page == '<p title="&lt;script&gt;&#39;&#34;&amp;">&lt;script&gt;&#39;&#34;&amp;'


def test_characters_that_mislead_are_written_visibly(tmp_path: Path) -> None:
    assert rendered(tmp_path, "{{ value }}", value="a\x00b\x1bc\nd\u202ee\udc80") == "a\\x00b\\x1bc\\nd\\u202ee\\udc80"


def test_none_is_nothing_and_zero_is_zero(tmp_path: Path) -> None:
    assert rendered(tmp_path, "[{{ none_there }}|{{ zero }}]", none_there=None, zero=0) == "[|0]"


def test_a_value_that_is_missing_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(jinja2.UndefinedError):
        rendered(tmp_path, "{{ values.missing }}", values={})


def test_jinja_is_imported_when_a_page_is_made_and_not_before() -> None:
    code = "import sys, seqferry.proof.report, seqferry.cli.app; print('jinja2' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
