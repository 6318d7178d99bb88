"""An option has one definition, of which the command line, HTTP and the arguments of a spec are made."""

from __future__ import annotations

import inspect
import re
from dataclasses import dataclass, fields, is_dataclass
from typing import Annotated, Any, get_type_hints

import pytest

from seqferry.api.fields import body_of
from seqferry.api.schemas import TransferRequest
from seqferry.cli import options
from seqferry.model.models import MOST_PRIORITY
from seqferry.spec import option_groups
from seqferry.spec.build import build_one
from seqferry.spec.option_fields import Http, Option, OptionField, option_fields
from seqferry.spec.properties import PropertyOptions

GROUPS: list[type[Any]] = [one for one in vars(option_groups).values() if is_dataclass(one) and hasattr(one, "PANEL")]
FIELDS = {one.name: one for group in GROUPS for one in option_fields(group)}

OF_HTTP_ALONE = {
    *("source", "target", "operation", "options", "keys", "objects", "inventory"),
    *("preflight", "new", "priority"),  # options of the start of a command, which has others
}
OF_THE_PROCESS = {"max_requests", "max_bandwidth", "memory", "cache", "max_cache_size"}
OF_THE_DOORS = {"include", "exclude", "files_from", "files_format", "recursive"}
"""``rules``, ``keys`` and ``source`` are made of these."""


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.__name__)
def test_each_field_of_a_group_is_an_option(group: type[Any]) -> None:
    assert [one.name for one in option_fields(group)] == [one.name for one in fields(group)]


def test_each_field_of_http_that_is_an_option_comes_from_a_group() -> None:
    of_groups = {name: one.default for name, one in FIELDS.items() if one.option.http is not None}
    of_http = {name: one.default for name, one in TransferRequest.model_fields.items() if name not in OF_HTTP_ALONE}

    assert set(inspect.get_annotations(TransferRequest)) == OF_HTTP_ALONE
    assert of_http == of_groups


def test_each_field_of_a_group_is_an_argument_of_a_spec() -> None:
    parameters = {name: one.default for name, one in inspect.signature(build_one).parameters.items()}
    del parameters["attributes"]
    properties = set(get_type_hints(PropertyOptions))
    given = {name: one for name, one in FIELDS.items() if name not in OF_THE_PROCESS | OF_THE_DOORS}

    assert set(given) <= properties | set(parameters)
    assert properties <= set(given)
    assert {name: given[name].default for name in given if name not in properties}.items() <= parameters.items()
    assert set(parameters) - set(given) == {
        *("source", "target", "keys", "versions", "targets", "inventory", "preflight", "below", "allow_local")
    }


def test_each_field_of_http_is_taken_by_a_spec() -> None:
    taken = set(inspect.signature(build_one).parameters) | set(get_type_hints(PropertyOptions))

    assert set(TransferRequest(source="s3://a/x", target="s3://b/x").arguments()) <= taken


@pytest.mark.parametrize(
    "field", [one for one in FIELDS.values() if one.option.http is not None], ids=lambda field: field.name
)
def test_no_description_over_http_speaks_of_the_command_line(field: OptionField) -> None:
    described = TransferRequest.model_fields[field.name].description

    assert described
    assert not re.search(r"--|\b(SRC|DST|FILE)\b|repeated|this machine|this process", described)


def test_a_priority_has_the_bounds_of_the_command_line() -> None:
    schema = TransferRequest.model_json_schema()["properties"]["priority"]

    assert (schema["minimum"], schema["maximum"], schema["default"]) == (-MOST_PRIORITY, MOST_PRIORITY, 0)


@dataclass(frozen=True, slots=True)
class Sample:
    most_tries: Annotated[int | None, Option("Tries.", "N", words=("--tries", "-t"), least=1, most=9)] = None
    days: Annotated[int, Option("Days of --tries.", least=1, http=Http(text="Days.", most=7))] = 2
    size: Annotated[int | None, Option("Bytes, as 1MiB.", "SIZE", "size", http=Http(text="Bytes."))] = None
    note: Annotated[list[str] | None, Option("Notes.", http=Http(characters=5, items=3, example=("a",)))] = None
    marks: Annotated[list[str] | None, Option("Marks.", notation="pairs", http=Http(items=2))] = None
    folder: Annotated[str | None, Option("A folder of this machine.", http=None)] = None


def test_a_body_has_the_options_of_its_groups_with_their_bounds() -> None:
    schema = body_of(Sample).model_json_schema()
    properties = {
        name: {key: value for key, value in one.items() if key != "title"} for name, one in schema["properties"].items()
    }

    assert schema["additionalProperties"] is False
    assert properties == {
        "most_tries": {
            "anyOf": [{"minimum": 1, "maximum": 9, "type": "integer"}, {"type": "null"}],
            "default": None,
            "description": "Tries.",
        },
        "days": {"minimum": 1, "maximum": 7, "type": "integer", "default": 2, "description": "Days."},
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
