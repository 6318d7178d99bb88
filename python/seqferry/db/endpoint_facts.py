"""Facts about endpoints, stored in the database by endpoint and bucket.

``seqferry doctor`` writes the results of its checks, and transfers write their warnings. The facts are a cache: a
damaged entry is ignored and replaced. They are addresses, names of buckets and short texts, and no credentials.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, field
from typing import Any, Final

import sqlalchemy as sa

from seqferry.db.advisory import AdvisoryLock, acquire
from seqferry.db.database import Database
from seqferry.db.tables import endpoint_fact
from seqferry.model.frozen import frozen
from seqferry.model.locations import Location, S3Location
from seqferry.model.models import TransferSpec
from seqferry.places import endpoints

MAX_ENDPOINTS: Final = 100
"""The newest are kept: a person reads few."""

LIFETIME: Final = 7 * 86400.0
"""Seconds for which a fact is used. Services are upgraded and buckets reconfigured within weeks."""

_MOST_TEXTS: Final = 20
_MOST_CHARACTERS: Final = 500
_AWS: Final = "aws"


@frozen
class EndpointFact:
    """One fact, and when it was found (seconds since the epoch)."""

    text: str
    at: float

    def age(self, now: float) -> float | None:
        """Seconds; None for a fact that is too old, or from a clock that was ahead."""
        found = now - self.at
        return found if 0.0 <= found <= LIFETIME else None


@frozen
class BucketFacts:
    """All facts about a bucket at an endpoint.

    Attributes:
        identity: proof of the identity that was used (``Identity.proof``); what may be read depends on it.
        answers: results of the checks, by topic.
        learned: warnings of transfers.
    """

    endpoint: str
    bucket: str
    identity: str = ""
    answers: Mapping[str, EndpointFact] = field(default_factory=dict[str, EndpointFact])
    learned: tuple[EndpointFact, ...] = ()

    def newest(self) -> float:
        """Time of the newest fact."""
        return max((one.at for one in (*self.answers.values(), *self.learned)), default=0.0)


def read(database: Database, place: S3Location) -> BucketFacts:
    """Facts about the bucket of this location.

    Raises:
        ConfigError: the database cannot be used.
    """
    with database.read() as connection:
        return _read(connection, endpoint_name(place), place.bucket)


def write_answers(database: Database, place: S3Location, identity: str, answers: Mapping[str, EndpointFact]) -> None:
    """Replace the results of earlier checks.

    Raises:
        ConfigError: the database cannot be used.
    """
    _change(database, place, lambda old: BucketFacts(old.endpoint, old.bucket, identity, answers, old.learned))


def record_warning(database: Database, spec: TransferSpec, note: str) -> None:
    """Store a warning of a transfer about an endpoint; ``note`` begins with its bucket.

    Raises:
        ConfigError: the database cannot be used.
    """
    place = _place_of(spec, note)
    if place is None:
        return
    new = EndpointFact(note.removeprefix(f"s3://{place.bucket}: ")[:_MOST_CHARACTERS], time.time())

    def change(old: BucketFacts) -> BucketFacts:
        others = [one for one in old.learned if one.text != new.text]
        return BucketFacts(old.endpoint, old.bucket, old.identity, old.answers, (new, *others)[:_MOST_TEXTS])

    _change(database, place, change)


def endpoint_name(place: S3Location) -> str:
    """The endpoint in one spelling. AWS has one for all regions that share their buckets."""
    return endpoints.resolve(place) or _AWS


def _place_of(spec: TransferSpec, note: str) -> S3Location | None:
    # Tags are read at the source; all else is refused at the target.
    sides: tuple[Location, Location] = spec.target, spec.source
    for place in reversed(sides) if "GetObjectTagging" in note else sides:
        if isinstance(place, S3Location) and note.startswith(f"s3://{place.bucket}: "):
            return place
    return None


def _change(database: Database, place: S3Location, changed: Callable[[BucketFacts], BucketFacts]) -> None:
    if endpoints.find_fault(endpoints.url(place) or "https://aws") == "credentials":
        return  # an address with a password in it, which no request is sent to either
    with database.write(durable=False) as connection:
        acquire(connection, AdvisoryLock.ENDPOINT_FACTS)  # workers and ``doctor`` may learn at the same time
        old = _read(connection, endpoint_name(place), place.bucket)
        connection.execute(endpoint_fact.delete().where(_is(old.endpoint, old.bucket)))
        connection.execute(endpoint_fact.insert().values(_row(changed(old))))
        _keep_newest(connection)


def _keep_newest(connection: sa.Connection) -> None:
    order = (endpoint_fact.c.newest_at.desc(), endpoint_fact.c.endpoint, endpoint_fact.c.bucket)
    rows = connection.execute(sa.select(endpoint_fact.c.endpoint, endpoint_fact.c.bucket).order_by(*order)).all()
    for row in rows[MAX_ENDPOINTS:]:
        connection.execute(endpoint_fact.delete().where(_is(row.endpoint, row.bucket)))


def _is(endpoint: str, bucket: str) -> sa.ColumnElement[bool]:
    return (endpoint_fact.c.endpoint == endpoint) & (endpoint_fact.c.bucket == bucket)


def _read(connection: sa.Connection, endpoint: str, bucket: str) -> BucketFacts:
    row = connection.execute(sa.select(endpoint_fact).where(_is(endpoint, bucket))).mappings().one_or_none()
    nothing = BucketFacts(endpoint, bucket)
    if row is None:
        return nothing
    try:
        data = {**row, "answers": json.loads(row["answers"]), "learned": json.loads(row["learned"])}
    except (ValueError, RecursionError):
        return nothing
    return _parse(data) or nothing


def _row(facts: BucketFacts) -> dict[str, Any]:
    answers = {name: asdict(one) for name, one in facts.answers.items()}
    values = {"answers": json.dumps(answers), "learned": json.dumps([asdict(one) for one in facts.learned])}
    key = {"endpoint": facts.endpoint, "bucket": facts.bucket, "identity": facts.identity}
    return {**key, **values, "newest_at": facts.newest()}


def _parse(data: Any) -> BucketFacts | None:
    """The facts of a row; None for a damaged one."""
    try:
        answers = {str(name): _answer(one) for name, one in data["answers"].items()}
        learned = tuple(_answer(one) for one in data["learned"][:_MOST_TEXTS])
        return BucketFacts(str(data["endpoint"]), str(data["bucket"]), str(data["identity"]), answers, learned)
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _answer(data: Any) -> EndpointFact:
    at = float(data["at"])
    if not math.isfinite(at):
        raise ValueError(at)
    return EndpointFact(str(data["text"])[:_MOST_CHARACTERS], at)
