"""Frozen classes: what the dataclasses of the standard library do, with methods that are compiled late."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping
from dataclasses import FrozenInstanceError, asdict, dataclass, field, fields, replace
from typing import Any, ClassVar, cast

import pytest

from seqferry.model.frozen import frozen


@frozen
class _Place:
    """A place."""

    KIND: ClassVar = "place"

    bucket: str
    key: str = "a"
    tags: list[str] = field(default_factory=list[str])
    secret: str = field(default="s", repr=False)
    origin: str = field(default="", compare=False)
    facts: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)

    def __post_init__(self) -> None:
        if not self.bucket:
            raise ValueError("no bucket")


@dataclass(frozen=True, slots=True)
class _Usual:
    bucket: str
    key: str = "a"
    tags: list[str] = field(default_factory=list[str])
    secret: str = field(default="s", repr=False)
    origin: str = field(default="", compare=False)
    facts: Mapping[str, int] = field(default_factory=dict[str, int], hash=False)


@frozen(kw_only=True)
class _Named:
    size: int
    parts: int = 1


@frozen
class _Folder(_Place):
    depth: int = 3


@frozen
class _Whole:
    a: int
    b: str

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Whole) and self.a == other.a

    def __repr__(self) -> str:
        return "whole"


def test_has_the_fields_defaults_and_text_of_a_dataclass() -> None:
    made, usual = _Place("b", "k", ["t"]), _Usual("b", "k", ["t"])

    assert asdict(made) == asdict(usual)
    assert [one.name for one in fields(made)] == [one.name for one in fields(usual)]
    assert repr(made) == repr(usual).replace("_Usual", "_Place")
    assert _Place("b").tags == []
    assert _Place("b").tags is not _Place("b").tags
    assert (_Place.KIND, _Place.__doc__, _Place.__match_args__) == ("place", "A place.", _Usual.__match_args__)
    assert not hasattr(made, "__dict__")


def test_compares_and_hashes_fields_as_they_say() -> None:
    first, other = _Folder("b", tags=[], origin="x"), _Folder("b", tags=[], origin="y")

    assert first == other != _Folder("b", "c")
    assert first != _Place("b")
    assert hash(_Named(size=1)) == hash(_Named(size=1, parts=1))
    assert {_Whole(1, "x"), _Whole(1, "x")} == {_Whole(1, "x")}
    assert _Whole(1, "x") == _Whole(1, "y")
    assert repr(_Whole(1, "x")) == "whole"
    with pytest.raises(TypeError, match="unhashable type: 'list'"):
        hash(first)


def test_refuses_changes() -> None:
    made = _Place("b")

    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'key'"):
        made.key = "z"  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'key'"):
        del made.key  # pyright: ignore[reportAttributeAccessIssue]
    assert replace(made, key="z") == _Place("b", "z")
    with pytest.raises(ValueError, match="no bucket"):
        replace(made, bucket="")


def _through_pickle(made: _Folder) -> Any:
    return pickle.loads(pickle.dumps(made))


@pytest.mark.parametrize("clone", [copy.copy, copy.deepcopy, _through_pickle], ids=["copy", "deepcopy", "pickle"])
def test_a_clone_is_equal_and_frozen(clone: Callable[[_Folder], Any]) -> None:
    made = _Folder("b", "k", ["t"], depth=5)

    found = clone(made)

    assert found == made
    assert found.depth == 5
    with pytest.raises(FrozenInstanceError):
        found.key = "z"


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: cast("Any", _Place)(), r"_Place.__init__\(\) missing 1 required positional argument: 'bucket'"),
        (lambda: cast("Any", _Place)("b", bad=1), r"_Place.__init__\(\) got an unexpected keyword argument 'bad'"),
        (lambda: cast("Any", _Named)(1), r"_Named.__init__\(\) takes 1 positional argument but 2 were given"),
    ],
)
def test_a_wrong_call_is_refused_as_for_a_dataclass(make: Any, text: str) -> None:
    with pytest.raises(TypeError, match=text):
        make()


def test_a_pickle_of_a_dataclass_is_read() -> None:
    state = _Usual("b", "k").__getstate__()  # pyright: ignore[reportAttributeAccessIssue]

    assert _Place("b", "k").__getstate__() == state  # pyright: ignore[reportAttributeAccessIssue]
