"""``/api/v1/places`` and ``/api/v1/capabilities``: listings and capabilities of storage that clients may read."""

from __future__ import annotations

import base64
import binascii
from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from pydantic.json_schema import SkipJsonSchema

from seqferry.api.deps import Context, ContextDep
from seqferry.api.openapi import problem_responses
from seqferry.api.problems import shorten
from seqferry.doctor import capabilities
from seqferry.engine.engine import LevelPage
from seqferry.model.errors import UsageError, errors_about
from seqferry.model.locations import S3Location
from seqferry.model.models import TransferSpec
from seqferry.spec.build import draft_spec

router = APIRouter(prefix="/api/v1", tags=["places"])

_ANY: Final = "s3://-/"
"""Stands for the other place of a spec; no request is sent to it."""

_CURSOR: Final = "^[A-Za-z0-9_-]{1,4096}={0,2}$"
"""The page token of the service, in base64: what it holds is the service's own."""


class FolderOut(BaseModel):
    name: str
    place: str
    """The location to list next."""


class FoundObject(BaseModel):
    name: str
    place: str
    size: int
    last_modified: datetime
    storage_class: str | None


class Level(BaseModel):
    """One level of a location: folders and objects."""

    place: str
    folders: list[FolderOut]
    objects: list[FoundObject]
    next_cursor: str | None
    """Give it as ``cursor`` for the next page; null at the end."""


class CapabilityOut(BaseModel):
    topic: str
    text: str
    age_seconds: float | None
    """Seconds since it was found; null where it has no time."""
    kept: bool
    """True if an earlier request has found it."""
    advice: str | None


class Capabilities(BaseModel):
    place: str
    capabilities: list[CapabilityOut]


PlaceQuery = Annotated[str, Field(max_length=2048), Query(description="`s3://bucket/prefix/`.")]
Word = Annotated[Annotated[str, Field(min_length=1, max_length=1024)] | SkipJsonSchema[None], Query()]


@router.get("/places", summary="List one level of a bucket or prefix", responses=problem_responses(400, 403, 502, 504))
async def browse(
    context: ContextDep,
    place: PlaceQuery = "s3://",
    endpoint_url: Word = None,
    region: Word = None,
    profile: Word = None,
    cursor: Annotated[
        Annotated[str, Field(pattern=_CURSOR)] | SkipJsonSchema[None],
        Query(description="`next_cursor` of the page before, with the same place."),
    ] = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> Level:
    """Folders and objects below a prefix; without a place, buckets. Shows only what clients may read
    (`[server] read`), and sends no request if that setting names all there is to show."""
    if place.rstrip("/") == "s3:":
        if cursor is not None:
            raise UsageError("A list of buckets has one page; leave the cursor out.").about("cursor")
        return await _roots(context, endpoint_url, region, profile)
    location = _location(context, place, endpoint_url, region, profile)
    token = None if cursor is None else _token(cursor)
    with errors_about("place"):
        page = await context.checks.run(
            TransferSpec(location, location),
            lambda: context.service.list_directory(location, limit=limit, continuation=token),
            operation="ListObjectsV2",
        )
    return _level(location, page)


@router.get(
    "/capabilities", summary="Capabilities of a storage service", responses=problem_responses(400, 403, 502, 504)
)
async def list_capabilities(
    context: ContextDep,
    place: PlaceQuery,
    endpoint_url: Word = None,
    region: Word = None,
    profile: Word = None,
) -> Capabilities:
    """As `seqferry doctor` reports them: nothing is written, and answers are cached."""
    location = _location(context, place, endpoint_url, region, profile)

    with errors_about("place"):
        found = await context.checks.run(
            TransferSpec(location, location),
            lambda: capabilities.of_place(context.service, location),
            operation="ListObjectsV2",
        )
    return Capabilities(
        place=location.uri,
        capabilities=[
            CapabilityOut(
                topic=one.topic, text=shorten(one.text), age_seconds=one.age, kept=one.kept, advice=one.advice
            )
            for one in found
        ],
    )


def _location(
    context: Context, place: str, endpoint_url: str | None, region: str | None, profile: str | None
) -> S3Location:
    """A location that the policy lets clients read.

    Raises:
        UsageError: it is no place in S3.
        PolicyError: the policy does not allow it.
    """
    given = draft_spec(place, _ANY, raw=True, endpoint_url=endpoint_url, region=region, profile=profile).source
    if not isinstance(given, S3Location):
        raise UsageError("Only buckets can be listed; write for example s3://bucket/prefix/.").about("place")
    context.settings.policy.check_browse(given)
    return given


async def _roots(context: Context, endpoint_url: str | None, region: str | None, profile: str | None) -> Level:
    """Buckets, or the places that clients may read."""
    policy = context.settings.policy
    account = _account(context, endpoint_url, region, profile)
    named = [one for one in policy.roots if "/" in one.removeprefix("s3://")]
    folders = [FolderOut(name=one.removeprefix("s3://").rstrip("/"), place=one) for one in named]
    if not policy.roots or len(named) < len(policy.roots):
        names = await context.checks.run(
            TransferSpec(account, account), lambda: context.service.list_buckets(account), operation="ListBuckets"
        )
        known = {one.place for one in folders}
        listed = [FolderOut(name=one, place=f"s3://{one}/") for one in names if policy.may_list(one)]
        folders += [one for one in listed if one.place not in known]
    return Level(place="s3://", folders=sorted(folders, key=lambda one: one.name), objects=[], next_cursor=None)


def _account(context: Context, endpoint_url: str | None, region: str | None, profile: str | None) -> S3Location:
    """The account whose buckets are listed, with an endpoint and a profile that the policy allows."""
    given = draft_spec(_ANY, _ANY, raw=True, endpoint_url=endpoint_url, region=region, profile=profile).source
    assert isinstance(given, S3Location)
    context.settings.policy.check_access(given)
    return given


def _level(location: S3Location, page: LevelPage) -> Level:
    start = location.key.rfind("/") + 1
    return Level(
        place=_escape(location.uri),
        folders=[FolderOut(name=_escape(one[start:]), place=_escape(location.at(one))) for one in page.prefixes],
        objects=[
            FoundObject(
                name=_escape(one.key[start:]),
                place=_escape(location.at(one.key)),
                size=one.size,
                last_modified=datetime.fromtimestamp(one.last_modified, UTC),
                storage_class=one.storage_class,
            )
            for one in page.objects
        ],
        next_cursor=None if page.more is None else base64.urlsafe_b64encode(page.more.encode()).decode(),
    )


def _escape(name: str) -> str:
    """A name as JSON can hold it."""
    return name.encode("utf-8", "backslashreplace").decode()


def _token(cursor: str) -> str:
    try:
        return base64.urlsafe_b64decode(cursor).decode()
    except (binascii.Error, UnicodeDecodeError, ValueError):
        raise UsageError("The cursor is not one of this list; leave it out to begin at the start.").about(
            "cursor"
        ) from None
