"""The stored form of specs: as this version writes it, and as newer ones may."""

from __future__ import annotations

import json
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest

from seqferry.model import operations
from seqferry.model.errors import UnsupportedError
from seqferry.model.locations import Access, Identity, LocalFolder, S3Location
from seqferry.model.models import KeyRange, TransferSpec
from seqferry.model.operations import OPERATIONS, Operation
from seqferry.model.option_groups import Parts, Removal, Selection, Storage
from seqferry.spec import identity, stored
from seqferry.spec.build import build_mirror_spec

TAGGED: dict[str, Any] = {
    "version": 2,
    "operation": "transfer",
    "source": {"type": "s3", "bucket": "from", "key": "run/"},
    "target": {"type": "s3", "bucket": "to", "key": "in/"},
    "strip": "run/",
    "keys": ["a", "b"],
}

SPEC = build_mirror_spec("from", "run/", ["a", "b"], "to", "in/")


def test_the_stored_form_leaves_out_what_has_its_default() -> None:
    assert stored.read(json.dumps(TAGGED)) == SPEC
    assert json.loads(stored.write(SPEC)) == TAGGED


def test_all_that_a_spec_holds_is_read_again() -> None:
    who = Identity("profile", "lab", "role", "proof")
    place = S3Location("b", "k/", "https://s3.example", "eu-west-1", "lab", access=Access(who, fips=True))
    spec = TransferSpec(
        source=LocalFolder("/data", "sub/ü", "skip", True, True, True),
        target=place,
        strip="sub/ü",
        selection=Selection("fail"),
        storage=Storage("content", "GLACIER", md5=True),
        parts=Parts(5 << 20, 0),
        removal=Removal(True, 7),
        options={"level": 3},
    )

    assert stored.read(stored.write(spec)) == spec
    assert stored.read_legible(stored.write(spec)) == (spec, None)


def _changed(**changes: Any) -> str:
    return json.dumps({**TAGGED, **changes})


def _source(**changes: Any) -> str:
    return _changed(source={**TAGGED["source"], **changes})


UNKNOWN = [
    pytest.param(_changed(version=3), "version 3 of the spec", id="version"),
    pytest.param(_changed(version="two"), "version two of the spec", id="a version that is no number"),
    pytest.param(_changed(encrypt="age1..."), "the field 'encrypt' in its spec", id="field"),
    pytest.param(_source(mirror="b"), "the field 'mirror' in its source", id="field of a place"),
    pytest.param(_source(symlinks="keep"), "the field 'symlinks' in its source", id="field of another place"),
    pytest.param(_source(type="gcs"), "a source of the type 'gcs'", id="place"),
    pytest.param(_changed(if_exists="newer"), "'newer' as 'if_exists' of its spec", id="value"),
    pytest.param(_changed(part_size="8MiB"), "'8MiB' as 'part_size' of its spec", id="value of another type"),
    pytest.param(_changed(keys=["a", 1]), "('a', 1) as 'keys' of its spec", id="key that is no text"),
    pytest.param(_source(bucket=None), "None as 'bucket' of its source", id="no bucket"),
    pytest.param(
        _source(access={"identity": {"source": "vault"}}), "'vault' as 'source' of its identity", id="identity"
    ),
    pytest.param(_source(access={"identity": {"source": "anonymous"}, "proxy": "p"}), "'proxy'", id="access"),
    pytest.param(_changed(source="s3://from/run/"), "'s3://from/run/' as its source", id="place that is a text"),
    pytest.param(json.dumps({"version": 2, "operation": "transfer"}), "no 'source' in its spec", id="no places"),
    pytest.param("{}", "version None of the spec", id="nothing"),
    pytest.param("[]", "[] as its spec", id="a list"),
    pytest.param("{", "no JSON", id="half of a text"),
]


@pytest.mark.parametrize(("text", "named"), UNKNOWN)
def test_what_is_not_known_is_refused_with_words_and_shown(text: str, named: str) -> None:
    with pytest.raises(UnsupportedError) as refused:
        stored.read(text)

    assert named in refused.value.message
    assert "Upgrade Seqferry" in refused.value.message
    spec, why = stored.read_legible(text)
    assert why is not None
    assert why.what == refused.value.what
    assert isinstance(spec.source.uri + spec.target.uri + spec.source.at("x"), str)


def test_what_is_known_of_an_unknown_spec_is_shown() -> None:
    spec, _ = stored.read_legible(
        _changed(version=9, encrypt="x", source={"type": "gcs", "key": "run/"}, verify="content")
    )

    assert spec.source.uri == "(gcs) run/"
    assert spec.target == SPEC.target
    assert (spec.storage.verify, spec.keys) == ("content", ("a", "b"))


def test_an_operation_that_is_not_known_is_refused_with_words() -> None:
    spec = stored.read(_changed(operation="rewind"))

    with pytest.raises(UnsupportedError, match="the operation 'rewind'"):
        operations.require_known(spec.operation)


def test_a_worker_needs_a_version_that_knows_the_features_of_a_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = replace(SPEC, operation="rewind")
    needs = identity.needs(spec)

    assert identity.needs(SPEC) is None
    assert identity.find_unmet_need(needs) == "a version of Seqferry that knows the operation rewind"
    assert identity.lane(needs) not in (None, identity.lane(identity.needs(replace(SPEC, operation="unpack"))))
    monkeypatch.setitem(OPERATIONS, "rewind", Operation("rewind", "rewind"))
    assert identity.find_unmet_need(needs) is None


@pytest.mark.parametrize(
    ("feature", "known"),
    [
        ("operation transfer", True),
        ("operation rewind", False),
        ("version 2", True),
        ("version 3", False),
        ("place s3", True),
        ("place gcs", False),
        ("field delete", True),
        ("field encrypt", False),
        ("value if_exists=skip", True),
        ("value if_exists=newer", False),
        ("value encrypt=age", False),
        ("storage vault", False),
        ("", False),
    ],
)
def test_a_worker_tells_which_features_it_has(feature: str, known: bool) -> None:
    lacking = stored.find_unknown_feature([feature])

    assert lacking == (None if known else f"a version of Seqferry that knows the {feature}")


def test_values_that_came_later_are_features_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored, "_FIRST_VALUES", {"verify": ("auto",)})
    monkeypatch.setattr(stored, "_FIRST_FIELDS", stored._FIRST_FIELDS - {"region"})  # pyright: ignore[reportPrivateUsage]
    spec = replace(SPEC, target=S3Location("to", "in/", region="eu-west-1")).with_options(verify="content")

    assert stored.features(spec) == ["value verify=content", "field region"]
    assert identity.find_unmet_need(identity.needs(spec)) is None
    assert stored.features(SPEC) == []


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_the_options_of_each_operation_are_known_as_features(name: str) -> None:
    options: frozenset[str] = import_module(operations.find_operation(name).module).OPERATION.options

    assert stored.find_unknown_feature(f"option {name}.{option}" for option in sorted(options)) is None
    assert name in stored._FIRST_OPTIONS  # pyright: ignore[reportPrivateUsage]


def test_options_that_came_later_are_features_too() -> None:
    spec = replace(SPEC, operation="pack", options={"split": 3, "level": 9})

    assert stored.features(spec) == ["option pack.level"]
    assert identity.find_unmet_need(identity.needs(spec)) == "a version of Seqferry that knows the option pack.level"
    assert stored.features(replace(spec, options={"split": 3})) == []


@pytest.mark.parametrize(
    ("field", "feature"),
    [
        ("access.fips", "field access.fips"),
        ("identity.role", "field identity.role"),
        ("ranges.into", "field ranges.into"),
    ],
)
def test_fields_of_nested_records_that_came_later_are_features_too(
    monkeypatch: pytest.MonkeyPatch, field: str, feature: str
) -> None:
    who = Identity("profile", "lab", "role", "proof")
    source = S3Location("from", "run/", access=Access(who, fips=True))
    spec = replace(SPEC, source=source, keys=None, ranges=(KeyRange("run/a", into="x"),))
    before = stored.features(spec)
    monkeypatch.setattr(stored, "_FIRST_FIELDS", stored._FIRST_FIELDS - {field})  # pyright: ignore[reportPrivateUsage]

    assert before == []
    assert stored.features(spec) == [feature]
    assert stored.find_unknown_feature([feature]) is None


@pytest.mark.parametrize(
    ("feature", "known"),
    [
        ("option pack.split", True),
        ("option pack.level", False),
        ("option rewind.split", False),
        ("field access.fips", True),
        ("field access.proxy", False),
        ("field ranges.into", True),
        ("field elsewhere.key", False),
        ("value identity.source=container", True),
        ("value identity.source=vault", False),
        ("part with the field 'encrypt' in its spec", False),
    ],
)
def test_a_worker_tells_which_options_and_nested_fields_it_has(feature: str, known: bool) -> None:
    assert stored.find_unknown_feature([feature]) == (
        None if known else f"a version of Seqferry that knows the {feature}"
    )


def test_a_run_needs_what_its_parts_need() -> None:
    parts = [
        {"spec": stored.write(SPEC), "lines": [1]},
        {"spec": _changed(operation="rewind"), "lines": [2]},
        {"spec": _changed(encrypt="age"), "lines": [3]},
    ]
    run = replace(SPEC, keys=None, operation="run", options={"parts": parts[:1]})
    newer = replace(run, options={"parts": parts})

    assert stored.features(run) == []
    assert stored.features(newer) == ["operation rewind", "part with the field 'encrypt' in its spec"]
    assert identity.find_unmet_need(identity.needs(run)) is None
    assert identity.find_unmet_need(identity.needs(newer)) == "a version of Seqferry that knows the operation rewind"
    assert identity.lane(identity.needs(run)) != identity.lane(identity.needs(newer))


def test_features_of_a_later_version_are_not_known_here() -> None:
    needs = json.dumps([{"features": ["field encrypt"], "identity": {"source": "x", "proof": ""}, "ca_bundle": None}])

    assert identity.find_unmet_need(needs) == "a version of Seqferry that knows the field encrypt"
    other = json.dumps([{"features": ["storage vault"], "identity": {"source": "x", "proof": ""}, "ca_bundle": None}])
    assert identity.find_unmet_need(other) == "a version of Seqferry that knows the storage vault"


def test_another_operation_or_option_is_another_submission() -> None:
    assert identity.submission_digest(replace(SPEC, operation="rewind")) != identity.submission_digest(SPEC)
    assert identity.submission_digest(replace(SPEC, options={"a": 1})) != identity.submission_digest(SPEC)
