"""Trees over rows have the root of RFC 9162, and rows are hashed as JSON."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqferry.engine.merkle import MerkleTree


def _leaf(row: Any) -> bytes:
    text = json.dumps(row, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(b"\x00" + text.encode("utf-8", "surrogatepass")).digest()


def _node(left: bytes, right: bytes) -> bytes:
    return hashlib.sha256(b"\x01" + left + right).digest()


def _recursive(leaves: list[bytes]) -> bytes:
    """As the RFC defines it."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return _node(_recursive(leaves[:split]), _recursive(leaves[split:]))


@pytest.mark.parametrize("size", [*range(34), 64, 65, 127, 1000])
def test_the_root_is_that_of_the_recursive_form(size: int) -> None:
    rows = [[number] for number in range(size)]
    tree, at_once = MerkleTree(), MerkleTree()
    leaves = [tree.add([row]) for row in rows]

    assert leaves == list(map(_leaf, rows))
    assert at_once.add(rows) == b"".join(leaves)
    assert (tree.size, tree.root()) == (at_once.size, at_once.root()) == (size, _recursive(leaves))


_VALUES = st.one_of(
    st.none(),
    st.integers(-(2**63), 2**63 - 1),
    st.text(st.characters(codec=None, categories=None, exclude_categories=())),
    st.text('\x00\x08\t\n\x0b\x0c\r\x1f\x7f"\\/\u2028\U0001f9ec\udc80'),
)


@given(st.lists(st.lists(_VALUES)), st.booleans())
def test_rows_are_hashed_as_json(rows: list[list[Any]], as_tuples: bool) -> None:
    given = [tuple(row) for row in rows] if as_tuples else rows

    assert MerkleTree(8).add(given) == b"".join(_leaf(row)[:8] for row in rows)


@given(st.floats(-1e18, 1e18))
def test_times_are_hashed_as_microseconds_and_values_before_the_first_are_not(seconds: float) -> None:
    found = MerkleTree().add([(7, "a", seconds, None)], first=1, times=(2,))

    assert found == _leaf(["a", round(seconds * 1_000_000), None])


@pytest.mark.parametrize(
    ("value", "error"),
    [(1.5, TypeError), (True, TypeError), ([1], TypeError), ({}, TypeError), (b"a", TypeError), (2**63, ValueError)],
)
def test_what_no_row_holds_is_refused_and_adds_nothing(value: Any, error: type[Exception]) -> None:
    tree = MerkleTree()
    with pytest.raises(error):
        tree.add([["a"], ["a", value]])

    assert tree.size == 0


@pytest.mark.parametrize("seconds", [float("inf"), float("nan")])
def test_a_time_that_is_no_number_is_refused(seconds: float) -> None:
    with pytest.raises(ValueError, match="not finite"):
        MerkleTree().add([[seconds]], times=(0,))


def test_a_leaf_cannot_pass_for_a_node() -> None:
    tree = MerkleTree()
    left, right = tree.add([["a"]]), tree.add([["b"]])

    assert tree.root() == _node(left, right) != hashlib.sha256(b"\x00" + left + right).digest()
