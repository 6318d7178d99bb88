"""Each refusal of a request says which options it is about, where the check is made; no door searches its text."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import seqferry
from seqferry.model.errors import SeqferryError, UsageError, errors_about
from seqferry.spec import build, options

PACKAGE = Path(seqferry.__file__).parent

CHECKS = (
    "spec/build.py", "spec/check.py", "spec/pack.py", "spec/properties.py", "spec/renaming.py", "spec/selection.py",
    "spec/source_ranges.py", "spec/target_keys.py", "spec/validation.py", "planning/cleanup.py",
    "planning/removals.py", "planning/unpacking.py", "service/control.py", "service/cron.py", "service/schedules.py",
    "service/share_links.py", "db/object_pages.py", "db/paging.py", "model/labels.py",
)  # fmt: skip
"""Modules that refuse what a request asks for."""

OF_NO_OPTION = ("Nothing says at which address people reach the page",)
"""Texts of refusals that no option of the request mends."""

OF_REQUESTS = {
    "source", "target", "keys", "inventory", "options", "split", "name", "labels", "label", "priority", "expected",
    "max_requests", "cron", "timezone", "expires", "cause", "recursive", "versions", "cursor", "sort", "offset",
    "state", "max_bandwidth",
}  # fmt: skip
"""Fields of requests that are no option of a spec."""

_REFUSALS = ("UsageError", "PolicyError")


def _unnamed(module: str) -> Iterator[str]:
    text = (PACKAGE / module).read_text(encoding="utf-8")
    tree = ast.parse(text)
    above = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in _REFUSALS):
            continue
        written = ast.get_source_segment(text, node) or ""
        is_named = isinstance(above[node], ast.Attribute) or _is_within_errors_about(node, above)
        if not is_named and not any(one in written for one in OF_NO_OPTION):
            yield f"{module}:{node.lineno}: {written}"


def _is_within_errors_about(node: ast.AST, above: dict[ast.AST, ast.AST]) -> bool:
    while node in above:
        node = above[node]
        around = node.items if isinstance(node, ast.With) else getattr(node, "decorator_list", [])
        if any("errors_about" in ast.dump(one) for one in around):
            return True
    return False


@pytest.mark.parametrize("module", CHECKS)
def test_each_refusal_names_the_options_that_it_is_about(module: str) -> None:
    # The texts of pairs are checked without their option's name: their caller knows it.
    unnamed = [one for one in _unnamed(module) if "{option}" not in one]
    assert unnamed == []


def _is_about(called: ast.expr) -> bool:
    """True for ``error.about`` and ``errors_about``."""
    if isinstance(called, ast.Attribute):
        return called.attr == "about"
    return isinstance(called, ast.Name) and called.id == "errors_about"


def test_the_options_that_refusals_name_exist() -> None:
    """A misspelt name would put no error beside any field."""
    known = options.option_names() | OF_REQUESTS
    for module in CHECKS:
        text = (PACKAGE / module).read_text(encoding="utf-8")
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Call) and _is_about(node.func):
                names = {one.value for one in node.args if isinstance(one, ast.Constant)}
                assert names <= known, (module, node.lineno)


def test_the_check_that_knows_best_says_which_option_it_is() -> None:
    with pytest.raises(UsageError) as raised, errors_about("source"):
        raise UsageError("The age is none.").about("settle")
    assert raised.value.options == ("settle",)

    with pytest.raises(UsageError) as raised, errors_about("source"):
        raise UsageError("The address is none.")
    assert raised.value.options == ("source",)


def test_an_option_of_one_side_comes_before_that_of_both() -> None:
    with pytest.raises(SeqferryError) as raised:
        build.build_spec("s3://a/x/", "s3://b/x/", target_endpoint_url="nonsense")
    assert raised.value.options == ("target_endpoint_url", "endpoint_url")
