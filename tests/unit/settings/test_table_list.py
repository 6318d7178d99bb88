"""Lists of tables of the configuration file: what fits is read, and what does not is named."""

from __future__ import annotations

from typing import Any

import pytest

from seqferry.settings import table_list
from seqferry.settings.table_list import MOST, Parser, TableError, TableList

_SHARES = TableList(
    "share",
    "served",
    {"name": table_list.text, "place": table_list.place, "uid": table_list.number(0, 10)},
    {"name": "runs", "place": "s3://bucket/prefix/"},
)
_WHOLE = {"name": "runs", "place": "s3://b/"}


@pytest.mark.parametrize(
    ("tables", "values"),
    [
        ([], []),
        ([_WHOLE], [_WHOLE]),
        ([_WHOLE | {"uid": 0}, _WHOLE | {"uid": 10}], [_WHOLE | {"uid": 0}, _WHOLE | {"uid": 10}]),
        ([_WHOLE] * MOST, [_WHOLE] * MOST),
    ],
)
def test_tables_are_read_in_their_order(tables: Any, values: Any) -> None:
    assert _SHARES.read(tables) == values


@pytest.mark.parametrize(
    ("tables", "key", "said"),
    [
        ("runs", None, "write [[share]]"),
        ({"name": "runs"}, None, "write [[share]]"),
        ([_WHOLE, "runs"], None, "write [[share]]"),
        ([_WHOLE] * (MOST + 1), None, f"there are {MOST + 1} shares, and at most {MOST} can be served"),
        ([_WHOLE | {"plase": "s3://b/"}], "plase", "did you mean 'place'?"),
        ([_WHOLE | {"zzz": 1}], "zzz", "known are: name, place, uid"),
        ([{"name": "runs"}], None, 'has no place; write place = "s3://bucket/prefix/"'),
        ([_WHOLE | {"name": ""}], "name", "[[share]] name: write a text"),
        ([_WHOLE | {"name": 7}], "name", "[[share]] name: write a text"),
        ([_WHOLE | {"place": "s3://"}], "place", "no bucket or prefix"),
        ([_WHOLE | {"place": "s3:///"}], "place", "no bucket or prefix"),
        ([_WHOLE | {"place": "/mnt/x"}], "place", "no bucket or prefix"),
        ([_WHOLE | {"uid": 11}], "uid", "write a number from 0 to 10"),
        ([_WHOLE | {"uid": -1}], "uid", "write a number from 0 to 10"),
        ([_WHOLE | {"uid": True}], "uid", "write a number from 0 to 10"),
        ([_WHOLE | {"uid": 1.0}], "uid", "write a number from 0 to 10"),
        ([_WHOLE | {"uid": "1"}], "uid", "write a number from 0 to 10"),
    ],
)
def test_what_does_not_fit_is_named(tables: Any, key: str | None, said: str) -> None:
    with pytest.raises(TableError, match="share") as refused:
        _SHARES.read(tables)

    assert refused.value.key == key
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("given", "repeated"), [([], None), (["a", "b"], None), (["a", "b", "b", "a"], "a"), (["a", "A"], None)]
)
def test_the_first_repeated_value_is_found(given: list[str], repeated: str | None) -> None:
    assert table_list.find_repeated(given) == repeated


@pytest.mark.parametrize(("parser", "value"), [(table_list.text, "ü"), (table_list.place, "s3://b/läufe/")])
def test_texts_of_any_language_are_taken(parser: Parser, value: str) -> None:
    assert parser(value) == value
