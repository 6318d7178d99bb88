"""An option has one definition, of which the command line, HTTP and the arguments of a spec are made."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, ClassVar, get_args

import pytest

from seqferry.api.fields import create_body_model
from seqferry.api.schemas import SourcesBody, TransferRequest
from seqferry.cli import options
from seqferry.model.locations import S3Location
from seqferry.model.models import MAX_PRIORITY, TransferSpec
from seqferry.model.option_fields import Http, Option, OptionField, is_of_texts, option_fields
from seqferry.model.option_groups import MEMBER_OF, MEMBERS
from seqferry.spec import identity, option_groups, stored
from seqferry.spec.build import build_spec, draft_spec
from seqferry.spec.options import option_names

GROUPS: list[type[Any]] = [
    *(one for one in vars(option_groups).values() if is_dataclass(one) and hasattr(one, "PANEL")),
    *MEMBERS.values(),
]
FIELDS = {one.name: one for group in GROUPS for one in option_fields(group)}

OF_HTTP_ALONE = {
    *("operation", "options", "inventory"),
    *("preflight", "new", "priority"),  # options of the start of a command, which has others
}
OF_SOURCES = {"source", "target", "keys", "objects"}


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_each_field_of_a_group_is_an_option(group: type[Any]) -> None:
    assert [one.name for one in option_fields(group)] == [one.name for one in fields(group)]


def test_each_field_of_http_that_is_an_option_comes_from_a_group() -> None:
    of_groups = {name: one.default for name, one in FIELDS.items() if one.option.http is not None}
    alone = (
        OF_HTTP_ALONE | OF_SOURCES | {"name", "labels"}
    )  # the description of a transfer, which is no part of its spec
    of_http = {name: one.default for name, one in TransferRequest.model_fields.items() if name not in alone}

    assert set(inspect.get_annotations(TransferRequest)) == OF_HTTP_ALONE
    assert SourcesBody.model_fields.keys() == OF_SOURCES
    assert of_http == of_groups


def test_a_spec_takes_each_option_but_those_that_a_door_obeys() -> None:
    of_doors = {name for name, one in FIELDS.items() if one.option.of_interface}

    assert of_doors == {
        *("max_requests", "max_bandwidth", "memory", "cache", "max_cache_size"),
        # ``rules``, ``keys`` and ``source`` are made of these.
        *("include", "exclude", "files_from", "files_format", "recursive"),
    }
    assert option_names() == FIELDS.keys() - of_doors


def test_an_option_that_no_group_has_is_an_error_of_the_program() -> None:
    for given in ({"part_sizes": 1}, {"recursive": True}, {"files_from": "list"}):
        with pytest.raises(TypeError, match=next(iter(given))):
            build_spec("s3://a/x", "s3://b/x", **given)


def test_each_option_of_a_spec_is_in_one_group_and_has_a_name_of_its_own() -> None:
    assert len(MEMBER_OF) == sum(len(fields(group)) for group in MEMBERS.values())
    assert not MEMBER_OF.keys() & {one.name for one in fields(TransferSpec)}
    assert {one.name: one.type for one in fields(TransferSpec) if one.name in MEMBERS} == {
        member: group.__name__ for member, group in MEMBERS.items()
    }


def test_a_spec_holds_what_was_given_for_each_option() -> None:
    spec = build_spec("s3://a/x/", "s3://b/x/", rename=["s/a/b/"], tags={"a": "1"}, tpslimit=3, min_size=0)

    assert spec == build_spec("s3://a/x/", "s3://b/x/").with_options(
        rename=("s/a/b/",), tags=("a=1",), tpslimit=3, min_size=0
    )
    assert (spec.names.rename, spec.attributes.tags) == (("s/a/b/",), ("a=1",))
    assert (spec.speed.tpslimit, spec.filters.min_size) == (3, 0)


def _other_value(field: OptionField) -> Any:
    """A value of an option that is not its default."""
    if is_of_texts(field.kept):
        return ("a=1",)
    choices = [one for kind in (field.kept, *get_args(field.kept)) for one in get_args(kind) if isinstance(one, str)]
    kinds = (field.kept, *get_args(field.kept))
    others = [*choices[1:], *choices, *([True] if bool in kinds else []), *([7] if int in kinds else []), "text"]
    return next(one for one in others if one != field.kept_default)


@pytest.mark.parametrize("name", MEMBER_OF)
def test_each_option_of_a_group_is_stored_compared_and_asked_of_a_worker(name: str) -> None:
    value = _other_value(FIELDS[name])
    default = TransferSpec(S3Location("from", "run/"), S3Location("to", "in/"))
    spec = default.with_options(**{name: value})
    text = json.loads(stored.write(spec))

    assert name in text
    assert name not in json.loads(stored.write(default))
    assert stored.read(stored.write(spec)) == spec != default
    assert stored.features(spec) == []
    # A limit of speed changes nothing of what is asked.
    assert (identity.submission_digest(spec) == identity.submission_digest(default)) == (name == "tpslimit")


def test_each_field_of_http_is_taken_by_a_spec() -> None:
    of_spec = set(inspect.signature(draft_spec).parameters) | option_names()

    assert set(TransferRequest(source="s3://a/x", target="s3://b/x").arguments()) <= of_spec


@pytest.mark.parametrize(
    "field", [one for one in FIELDS.values() if one.option.http is not None], ids=lambda field: field.name
)
def test_no_description_over_http_speaks_of_the_command_line(field: OptionField) -> None:
    described = TransferRequest.model_fields[field.name].description

    assert described
    assert not re.search(r"--|\b(SRC|DST|FILE)\b|repeated|this machine|this process", described)


def test_a_priority_has_the_bounds_of_the_command_line() -> None:
    schema = TransferRequest.model_json_schema()["properties"]["priority"]

    assert (schema["minimum"], schema["maximum"], schema["default"]) == (-MAX_PRIORITY, MAX_PRIORITY, 0)


@dataclass(frozen=True, slots=True)
class Sample:
    PANEL: ClassVar = "Speed"

    most_tries: Annotated[int | None, Option("Tries.", "N", words=("--tries", "-t"), minimum=1, maximum=9)] = None
    days: Annotated[int, Option("Days of --tries.", minimum=1, http=Http(text="Days of `most_tries`.", maximum=7))] = 2
    size: Annotated[int | None, Option("Bytes, as 1MiB.", "SIZE", "size", http=Http(text="Bytes."))] = None
    note: Annotated[list[str] | None, Option("Notes.", http=Http(max_length=5, max_items=3, example=("a",)))] = None
    marks: Annotated[list[str] | None, Option("Marks.", notation="pairs", http=Http(max_items=2))] = None
    folder: Annotated[str | None, Option("A folder of this machine.", http=None)] = None


def test_a_body_has_the_options_of_its_groups_with_their_bounds() -> None:
    schema = create_body_model(Sample).model_json_schema()
    properties = {
        name: {key: value for key, value in one.items() if key != "title" and not key.startswith("x-")}
        for name, one in schema["properties"].items()
    }

    days = schema["properties"]["days"]
    assert (days["title"], days["x-group"], days["x-help"]) == ("Days", "Speed", "Days of “Most tries”.")
    assert schema["additionalProperties"] is False
    assert properties == {
        "most_tries": {
            "anyOf": [{"minimum": 1, "maximum": 9, "type": "integer"}, {"type": "null"}],
            "default": None,
            "description": "Tries.",
        },
        "days": {"minimum": 1, "maximum": 7, "type": "integer", "default": 2, "description": "Days of `most_tries`."},
        "size": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None, "description": "Bytes."},
        "note": {
            "anyOf": [
                {"items": {"type": "string", "minLength": 1, "maxLength": 5}, "maxItems": 3, "type": "array"},
                {"type": "null"},
            ],
            "default": None,
            "description": "Notes.",
            "examples": [["a"]],
        },
        "marks": {
            "anyOf": [
                {"additionalProperties": {"type": "string"}, "maxProperties": 2, "type": "object"},
                {"type": "null"},
            ],
            "default": None,
            "description": "Marks.",
        },
    }


def test_a_command_has_the_same_options_under_names_and_variables_made_by_rule() -> None:
    made = {one.name: options.typer_option(one) for one in option_fields(Sample)}

    words = {name: (one.default, *(one.param_decls or ())) for name, one in made.items()}
    assert words["most_tries"] == ("--tries", "-t")
    assert words["folder"] == ("--folder",)
    assert made["most_tries"].envvar == "SEQFERRY_TRIES"
    assert (made["most_tries"].min, made["most_tries"].max) == (1, 9)
    assert (made["days"].max, made["days"].help) == (None, "Days of --tries.")
    assert made["size"].parser is options.size
