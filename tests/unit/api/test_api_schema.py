"""The description of the HTTP API holds each bound of a request that the server enforces."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, cast, get_args, get_origin

import pytest
from fastapi import FastAPI
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field, TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from seqferry.api.fields import WholeNumber
from seqferry.api.routes import control, health, mirror, previews, proof, transfers, verbs
from seqferry.api.schemas import Priority

ROUTERS = (
    *(health.router, mirror.router, mirror.crash_router, transfers.router, control.router, control.actions),
    *(previews.router, proof.router, verbs.router),
)

KEYWORDS = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "pattern": "pattern",
    **{f"min{what}": "min_length" for what in ("Length", "Items", "Properties")},
    **{f"max{what}": "max_length" for what in ("Length", "Items", "Properties")},
}
"""Keywords of JSON Schema, by what pydantic calls the same bound."""

Bounds = set[tuple[str, Any]]


def enforced(annotation: Any, metadata: Iterable[Any] = ()) -> Bounds:
    """Bounds in a type, at each depth, but for those in the fields of models."""
    found: Bounds = set()
    for one in (*metadata, *getattr(annotation, "__metadata__", ())):
        if isinstance(one, FieldInfo):
            found |= enforced(one.annotation, one.metadata)
        found |= {(name, getattr(one, name)) for name in KEYWORDS.values() if getattr(one, name, None) is not None}
    if get_origin(annotation) is not Literal:
        found = found.union(*map(enforced, get_args(annotation)))
    return found


def documented(schema: Any) -> Bounds:
    """Bounds in a schema, at each depth."""
    found: Bounds = set()
    if isinstance(schema, list):
        found = found.union(*map(documented, cast("list[Any]", schema)))
    elif isinstance(schema, dict):
        for name, value in cast("dict[str, Any]", schema).items():
            if name in KEYWORDS:
                found.add((KEYWORDS[name], value))
            elif name not in ("default", "examples"):
                found |= documented(value)
    return found


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    """Models in a type, and those in their fields."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
        for field in annotation.model_fields.values():
            yield from models(field.annotation)
    for part in get_args(annotation):
        yield from models(part)


def routes() -> list[APIRoute]:
    return [route for router in ROUTERS for route in router.routes if isinstance(route, APIRoute)]


def parameters() -> list[tuple[str, FieldInfo, Mapping[str, Any]]]:
    """Parameters of all routes: where, what the code asks of them, and what the description says."""
    app = FastAPI()
    for router in ROUTERS:
        app.include_router(router)
    paths = app.openapi()["paths"]
    found: list[tuple[str, FieldInfo, Mapping[str, Any]]] = []
    for route in routes():
        method = min(route.methods or ()).lower()
        described = {one["name"]: one["schema"] for one in paths[route.path][method].get("parameters", [])}
        fields = (*route.dependant.query_params, *route.dependant.header_params, *route.dependant.path_params)
        found += [(f"{method} {route.path} {one.alias}", one.field_info, described[one.alias]) for one in fields]
    return found


def bodies() -> list[type[BaseModel]]:
    fields = (field for route in routes() for field in route.dependant.body_params)
    return sorted(
        {one for field in fields for one in models(field.field_info.annotation)}, key=lambda one: one.__name__
    )


@pytest.mark.parametrize("model", bodies())
def test_each_bound_of_a_body_is_in_its_schema(model: type[BaseModel]) -> None:
    properties = model.model_json_schema()["properties"]
    told = {name: documented(properties[name]) for name in model.model_fields}

    assert {name: enforced(field.annotation, field.metadata) for name, field in model.model_fields.items()} == told


@pytest.mark.parametrize(("field", "schema"), [pytest.param(*rest, id=name) for name, *rest in parameters()])
def test_each_bound_of_a_parameter_is_in_its_schema(field: FieldInfo, schema: Mapping[str, Any]) -> None:
    assert enforced(field.annotation, field.metadata) == documented(schema)


def test_bodies_and_parameters_are_found() -> None:
    names = {model.__name__ for model in bodies()}

    assert {"TransferRequest", "ListedKey", "Adjustment", "Action", "StartTransfer"} <= names
    assert len(parameters()) > 20


def test_no_body_takes_a_field_that_is_not_documented() -> None:
    assert {model.__name__ for model in bodies() if model.model_config.get("extra") != "forbid"} == {
        "StartTransfer"
    }  # as S3Mirror's own


def test_a_bound_that_is_lost_is_found() -> None:
    class LostBound(BaseModel):
        number: Annotated[WholeNumber, Field(ge=1)]
        """Its bound stands after the check of its type."""

    assert enforced(LostBound.model_fields["number"].annotation, LostBound.model_fields["number"].metadata) == {
        ("ge", 1)
    }
    assert documented(LostBound.model_json_schema()) == set()


@pytest.mark.parametrize("given", [True, "1", 1.5, 11, -11, None])
def test_a_priority_is_a_whole_number_within_its_bounds(given: object) -> None:
    with pytest.raises(ValidationError):
        TypeAdapter(Priority).validate_python(given)


@pytest.mark.parametrize("given", ["10", "10.0", "-10"])
def test_a_whole_number_may_be_written_with_a_point(given: str) -> None:
    assert TypeAdapter(Priority).validate_python(json.loads(given)) == float(given)
