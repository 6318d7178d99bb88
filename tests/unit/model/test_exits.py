"""Exit codes: each error that a command can end with has one that is documented."""

from __future__ import annotations

import pytest

from seqferry.model import errors, exits
from seqferry.model.errors import SeqferryError


def _kinds(kind: type[SeqferryError]) -> list[type[SeqferryError]]:
    return [kind, *(one for below in kind.__subclasses__() for one in _kinds(below))]


@pytest.mark.parametrize("kind", [one for one in _kinds(SeqferryError) if one.__module__ == errors.__name__])
def test_each_error_has_a_code_of_the_table_that_is_no_success(kind: type[SeqferryError]) -> None:
    assert kind.exit_code in {code for code, _ in exits.TABLE} - {exits.OK, exits.INTERRUPTED}


def test_each_code_has_one_meaning() -> None:
    codes, meanings = zip(*exits.TABLE, strict=True)

    assert len(set(codes)) == len(set(meanings)) == len(exits.TABLE)
