"""Tables of the configuration file: what fits is built, and what does not is named."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, ClassVar

import pytest

from seqferry.settings import tables
from seqferry.settings.tables import MOST, NO_OTHER_KEYS, Key, Place, TableError


@dataclass(frozen=True, slots=True)
class Sample:
    __pydantic_config__: ClassVar[Any] = NO_OTHER_KEYS

    name: Annotated[str, Key("write a text", min_length=1, example="runs")]
    place: Place
    uid: Annotated[int, tables.number(0, 10)] | None = None
    secret: Annotated[str, Key("it is no secret", min_length=8)] | None = None


_WHOLE = {"name": "runs", "place": "s3://b/"}


@pytest.mark.parametrize(
    ("given", "values"),
    [
        ([], []),
        ([_WHOLE], [_WHOLE]),
        ([_WHOLE | {"uid": 0}, _WHOLE | {"uid": 10}], [_WHOLE | {"uid": 0}, _WHOLE | {"uid": 10}]),
        ([_WHOLE] * MOST, [_WHOLE] * MOST),
    ],
)
def test_tables_are_read_in_their_order(given: Any, values: Any) -> None:
    found = tables.build_list(Sample, given, "share", "served")
    assert [{key: value for key, value in asdict(one).items() if value is not None} for one in found] == values


@pytest.mark.parametrize(
    ("given", "key", "said"),
    [
        ("runs", None, "write [[share]]"),
        ({"name": "runs"}, None, "write [[share]]"),
        ([_WHOLE, "runs"], None, "write [[share]]"),
        ([_WHOLE] * (MOST + 1), None, f"there are {MOST + 1} shares, and at most {MOST} can be served"),
        ([_WHOLE | {"plase": "s3://b/"}], "plase", "did you mean 'place'?"),
        ([_WHOLE | {"zzz": 1}], "zzz", "known are: name, place, uid, secret"),
        ([{"place": "s3://b/"}], None, 'a share has no name; write name = "runs"'),
        ([{"name": "runs"}], None, 'has no place; write place = "s3://bucket/runs/"'),
        ([_WHOLE | {"name": ""}], "name", "[[share]] name: write a text"),
        ([_WHOLE | {"name": 7}], "name", "[[share]] name: write a text"),
        ([_WHOLE | {"place": "s3://"}], "place", "no bucket or prefix"),
        ([_WHOLE | {"place": "s3:///"}], "place", "no bucket or prefix"),
        ([_WHOLE | {"place": "/mnt/x"}], "place", "no bucket or prefix"),
        ([_WHOLE | {"uid": 11}], "uid", "write a number from 0 to 10"),
        ([_WHOLE | {"uid": -1}], "uid", "write a number from 0 to 10"),
        ([_WHOLE | {"uid": True}], "uid", "write a number from 0 to 10"),
        ([_WHOLE | {"uid": 1.0}], "uid", "write a number from 0 to 10"),
        ([_WHOLE | {"secret": "hunter2"}], "secret", "it is no secret"),
        ([_WHOLE | {"uid": 11, "zzz": 1}], "zzz", "is not known"),
        ([_WHOLE | {"uid": "1"}], "uid", "write a number from 0 to 10"),
    ],
)
def test_what_does_not_fit_is_named(given: Any, key: str | None, said: str) -> None:
    with pytest.raises(TableError, match="share") as refused:
        tables.build_list(Sample, given, "share", "served")

    assert refused.value.key == key
    assert said in str(refused.value)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize(
    ("given", "repeated"), [([], None), (["a", "b"], None), (["a", "b", "b", "a"], "a"), (["a", "A"], None)]
)
def test_the_first_repeated_value_is_found(given: list[str], repeated: str | None) -> None:
    assert tables.find_repeated(given) == repeated


@pytest.mark.parametrize(("key", "value"), [("name", "ü"), ("place", "s3://b/läufe/")])
def test_texts_of_any_language_are_taken(key: str, value: str) -> None:
    assert getattr(tables.build(Sample, _WHOLE | {key: value}, "[[share]]"), key) == value
