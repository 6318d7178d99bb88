"""Tables for look-ups in long lists: each value has its own, made once, and they are no part of what it asks for."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

from seqferry.model.locations import S3Location
from seqferry.model.models import Compiled, ResolvedSpec, TransferSpec
from seqferry.spec import stored, target_keys
from seqferry.spec.run import RunPart
from seqferry.spec.target_keys import target_key


def _spec(number: int, keys: int = 3) -> TransferSpec:
    names = tuple(f"k{one}" for one in range(keys))
    renamed = tuple(f"list{number}-{name}" for name in names)
    return TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"), strip="run/", keys=names, targets=renamed)


def test_the_table_of_a_list_is_made_once_for_each_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []
    make = target_keys._targets_by_key
    monkeypatch.setattr(target_keys, "_targets_by_key", counted := lambda spec: made.append(id(spec)) or make(spec))
    assert counted is target_keys._targets_by_key
    specs = [_spec(number) for number in range(20)]

    for _ in range(3):
        for number, spec in enumerate(specs):
            assert target_key(spec, "run/k1") == f"in/list{number}-k1"

    assert len(made) == 20


def test_threads_that_share_specs_see_the_names_of_their_own_list() -> None:
    specs = [_spec(number, keys=50) for number in range(40)]

    def names(spec: TransferSpec) -> list[str]:
        return [target_key(spec, f"run/k{one}") for one in range(50)]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(names, specs * 5))

    assert found == [[f"in/list{number}-k{one}" for one in range(50)] for number in range(40)] * 5


def test_what_is_compiled_is_no_part_of_a_spec() -> None:
    spec, same = _spec(1), _spec(1)
    target_key(spec, "run/k1")

    assert spec == same
    assert hash(spec) == hash(same)
    assert stored.write(spec) == stored.write(same)
    assert "compiled" not in repr(spec)
    for made in (pickle.loads(pickle.dumps(spec)), copy.deepcopy(spec)):
        assert made == same
        assert not hasattr(made, "_compiled")
    changed = ResolvedSpec.of(spec).derive(targets=("x", "y", "z"))
    assert target_key(changed, "run/k1") == "in/y"


def test_lines_of_a_part_are_found_by_key() -> None:
    part = RunPart(ResolvedSpec.of(_spec(1)), (7, 8, 9))

    assert [part.line_of(f"k{one}") for one in range(3)] == [7, 8, 9]
    assert isinstance(part, Compiled)
