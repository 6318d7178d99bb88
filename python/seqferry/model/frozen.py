"""Frozen dataclasses with slots that are cheap to define.

``dataclasses.dataclass`` compiles six methods of each class while its module is imported, which takes 0.5 ms. A short
command imports more than a hundred classes, and makes objects of a few. Here ``__init__`` is compiled for the first
object, and the other methods are functions that all classes share. Fields, defaults, ``replace``, ``asdict``, pickles
and errors are those of the standard library, of which only public functions are called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import partial
from operator import attrgetter
from typing import Any, Final, TypeVar, dataclass_transform, overload

_Class = TypeVar("_Class", bound=type[Any])


@overload
def frozen(given: _Class, /) -> _Class: ...
@overload
def frozen(*, kw_only: bool) -> Callable[[_Class], _Class]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def frozen(given: type[Any] | None = None, /, *, kw_only: bool = False) -> Any:
    """``@dataclass(frozen=True, slots=True)``, with methods that are compiled when they are needed."""
    return partial(_define, kw_only=kw_only) if given is None else _define(given, kw_only=kw_only)


def _define(given: type[Any], *, kw_only: bool) -> type[Any]:
    own = {name for name, value in vars(given).items() if value is not None}  # __hash__ is None beside an own __eq__
    made = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(given)
    compared = _getter(one for one in fields(made) if one.compare)
    hashed = _getter(one for one in fields(made) if (one.compare if one.hash is None else one.hash))

    def init(self: Any, /, *values: Any, **named: Any) -> None:
        made.__init__ = _compile_init(made)
        made.__init__(self, *values, **named)

    def equals(self: Any, other: object) -> bool:
        return compared(self) == compared(other) if other.__class__ is self.__class__ else NotImplemented

    def hash_fields(self: Any) -> int:
        return hash(hashed(self))

    for name, method in {"__init__": init, "__eq__": equals, "__hash__": hash_fields, **_SHARED}.items():
        if name not in own:
            setattr(made, name, method)
    return made


def _getter(found: Iterable[Field[Any]]) -> Callable[[Any], Any]:
    names = [one.name for one in found]
    return attrgetter(*names) if names else lambda _: ()


def _compile_init(made: type[Any]) -> Callable[..., None]:
    """The ``__init__`` that the standard library would have compiled."""
    names: dict[str, Any] = {}
    parameters: dict[bool, list[str]] = {False: [], True: []}
    lines = list[str]()
    for number, one in enumerate(fields(made)):
        assert one.init, f"{made.__qualname__}.{one.name}: a frozen field is a parameter"
        # The member of the slot, which stores past the refusal of assignments.
        names[f"_set{number}"] = getattr(made, one.name).__set__
        default, value = "", one.name
        if one.default is not MISSING:
            names[f"_default{number}"], default = one.default, f"=_default{number}"
        elif one.default_factory is not MISSING:
            names[f"_make{number}"], default = one.default_factory, "=_missing"
            value = f"_make{number}() if {one.name} is _missing else {one.name}"
        parameters[bool(one.kw_only)].append(one.name + default)
        lines.append(f"_set{number}(_self, {value})")
    if hasattr(made, "__post_init__"):
        lines.append("_self.__post_init__()")
    if parameters[True]:
        parameters[True].insert(0, "*")
    head = ", ".join(["_self", "/", *parameters[False], *parameters[True]])
    names["_missing"] = MISSING
    exec(f"def __init__({head}):\n " + "\n ".join(lines or ["pass"]), names)  # noqa: S102 - made of names of fields
    init = names["__init__"]
    init.__qualname__ = f"{made.__qualname__}.__init__"
    return init


def _repr(self: Any) -> str:
    shown = (f"{one.name}={getattr(self, one.name)!r}" for one in fields(self) if one.repr)
    return f"{type(self).__qualname__}({', '.join(shown)})"


def _refuse_assignment(self: Any, name: str, _value: object) -> None:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot assign to field '{name}'")


def _refuse_removal(self: Any, name: str) -> None:  # noqa: ARG001
    raise FrozenInstanceError(f"cannot delete field '{name}'")


def _state(self: Any) -> list[Any]:
    return [getattr(self, one.name) for one in fields(self)]


def _restore(self: Any, state: Iterable[Any]) -> None:
    for one, value in zip(fields(self), state, strict=True):
        object.__setattr__(self, one.name, value)


_SHARED: Final = {
    "__repr__": _repr,
    "__setattr__": _refuse_assignment,
    "__delattr__": _refuse_removal,
    "__getstate__": _state,
    "__setstate__": _restore,
}
