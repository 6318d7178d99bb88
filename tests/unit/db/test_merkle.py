"""The tree that grows leaf by leaf has the root of RFC 9162."""

from __future__ import annotations

import hashlib

import pytest

from seqferry.db.record import merkle


def _recursive(leaves: list[bytes]) -> bytes:
    """As the RFC defines it."""
    if not leaves:
        return hashlib.sha256().digest()
    if len(leaves) == 1:
        return leaves[0]
    split = 1
    while split * 2 < len(leaves):
        split *= 2
    return merkle.node(_recursive(leaves[:split]), _recursive(leaves[split:]))


@pytest.mark.parametrize("size", [*range(34), 64, 65, 127, 1000])
def test_the_root_is_that_of_the_recursive_form(size: int) -> None:
    leaves = [merkle.leaf(str(number).encode()) for number in range(size)]
    tree = merkle.Tree()
    for leaf in leaves:
        tree.add(leaf)

    assert (tree.size, tree.root()) == (size, _recursive(leaves))


def test_a_leaf_cannot_pass_for_a_node() -> None:
    left, right = merkle.leaf(b"a"), merkle.leaf(b"b")

    assert merkle.leaf(left + right) != merkle.node(left, right)
