"""Capabilities of an endpoint that can be found without writing an object: by reads, its name, and records.

Answers of reads are kept (``endpoint_facts``). A refusal for lack of permission is not, nor is a failure: either may be
gone by the next look.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from seqferry.db import endpoint_facts
from seqferry.db.database import Database
from seqferry.db.endpoint_facts import BucketFacts, EndpointFact
from seqferry.engine import buckets
from seqferry.engine.engine import Engine, ObjectInfo
from seqferry.model.errors import StorageError
from seqferry.model.frozen import frozen
from seqferry.model.locations import S3Location
from seqferry.model.models import Status
from seqferry.service.service import Service
from seqferry.spec import identity

_TRANSFERS: Final = 200
_LOOKED_INTO: Final = 10
_OBJECTS: Final = 200
"""Records that are read: the newest transfers, those of them inside the storage, and the first objects of each."""

MEASURED: Final = {
    "seaweedfs": "SeaweedFS 4.48 honours If-None-Match and keeps tags and checksums",
    "versitygw": "versitygw 1.8.0 honours If-None-Match and keeps tags and checksums",
    "minio": "MinIO 2026-02-12 honours If-None-Match and keeps tags and checksums, but not of copies in parts",
}
"""Results of ``make compat`` by the beginning of the Server header, in small letters."""


@frozen
class Capability:
    """One fact about an endpoint.

    Attributes:
        age: seconds since it was found; None where it has no time.
        kept: True for a fact from an earlier look.
        advice: the next step, where the fact is worth a warning.
    """

    topic: str
    text: str
    age: float | None
    kept: bool = False
    advice: str | None = None


@frozen
class ProbedBucket:
    """A bucket to check.

    Attributes:
        database: where answers are kept; None: it cannot be used.
        server: its Server header; empty when it has none.
        sample: an object below the place, if there is one.
        is_target: transfers are to write there.
        refresh: ask again, whatever is kept.
    """

    engine: Engine
    database: Database | None
    place: S3Location
    server: str
    sample: ObjectInfo | None
    is_target: bool
    refresh: bool


class _UnknownError(Exception):
    """A capability that nothing at this endpoint shows."""


def find_capabilities(probed: ProbedBucket) -> Iterator[Capability]:
    """Tell what the endpoint can do, from what is kept where that is young enough; keeps the new answers.

    Raises:
        ConfigError: the answers cannot be read or kept. All were yielded before.
    """
    facts = _read_facts(probed)
    proof = _identity(probed.place)
    old: Mapping[str, EndpointFact] = {} if probed.refresh or facts.identity != proof else facts.answers
    now = time.time()
    answers: dict[str, EndpointFact] = {}
    if probed.server:
        yield Capability("server", _of_server(probed.server), None)
    asked = False
    for topic, probe in _PROBES.items():
        answer = old.get(topic)
        age = None if answer is None else answer.age(now)
        if answer is not None and age is not None:
            answers[topic] = answer
            yield Capability(topic, answer.text, age, kept=True)
            continue
        try:
            answers[topic] = EndpointFact(probe(probed), time.time())
        except _UnknownError:
            continue
        except StorageError as why:
            if why.error_class != "capability":
                yield _describe_refusal(probed, topic, why)
                continue
            answers[topic] = EndpointFact(f"not offered ({why.operation} {why.error_code})", time.time())
        asked = True
        yield Capability(topic, answers[topic].text, 0.0)
    for one in facts.learned:
        yield Capability("learned", f"a transfer found: {one.text}", max(now - one.at, 0.0), kept=True)
    if asked and probed.database is not None:
        endpoint_facts.write_answers(probed.database, probed.place, proof, answers)


def _read_facts(probed: ProbedBucket) -> BucketFacts:
    if probed.database is None:
        return BucketFacts(endpoint_facts.endpoint_name(probed.place), probed.place.bucket)
    return endpoint_facts.read(probed.database, probed.place)


def _identity(place: S3Location) -> str:
    resolved = identity.resolve_place(place)
    assert isinstance(resolved, S3Location)
    return "" if resolved.access is None else resolved.access.identity.proof


def _of_server(header: str) -> str:
    name = header.lower()
    measured = next((text for start, text in MEASURED.items() if name.startswith(start)), None)
    if measured is not None:
        return f"{header}; as measured, {measured}"
    if name.startswith("amazons3"):
        return f"{header}; conditional writes, tags, checksums and copies in parts are part of it"
    return f"{header}; `make compat` checks what only writing can show (docs/guarantees/compatibility.md)"


def _describe_refusal(probed: ProbedBucket, topic: str, why: StorageError) -> Capability:
    if why.error_class != "person":
        return Capability(topic, why.message, 0.0, advice="See that the endpoint can be reached, and look again.")
    text = f"not known: these credentials may not ask ({why.operation} {why.error_code})"
    if topic == "open uploads" and probed.is_target:
        advice = "Allow s3:ListBucketMultipartUploads, by which uploads that a crash left open are found."
    elif topic == "ranges" and not probed.is_target:
        advice = "Allow s3:GetObject below this prefix, and kms:Decrypt where objects are encrypted with KMS."
    else:
        advice = None  # version histories are a matter of their own option
    return Capability(topic, text, 0.0, advice=advice)


# --- reads ------------------------------------------------------------------------------------------------------------


def _versions(probed: ProbedBucket) -> str:
    page = next(buckets.list_versions(probed.engine, probed.place))
    if any(one.version_id not in ("", "null") for one in page):
        return "can be listed, and the bucket keeps them"
    return f"can be listed; {'the first page shows that none are kept' if page else 'there are none yet'}"


def _open_uploads(probed: ProbedBucket) -> str:
    # Below a name that no upload has: buckets may have thousands of open ones.
    nothing = replace(probed.place, key=f"{probed.place.key}.seqferry-doctor/")
    buckets.list_uploads(probed.engine, nothing)
    return "can be listed"


def _abort_rules(probed: ProbedBucket) -> str:
    key = probed.place.key
    rules = buckets.read_abort_rules(probed.engine, probed.place)
    days = [days for prefix, days in rules if key.startswith(prefix) or prefix.startswith(key)]
    if not days:
        return "no rule aborts uploads that are not completed"
    return f"a rule aborts uploads that are not completed {min(days)} days after they began"


def _attributes(probed: ProbedBucket) -> str:
    sample = _sample(probed)
    known = buckets.head_object(probed.engine, replace(probed.place, key=sample.key))
    checksum = f"a checksum ({known.checksum_algorithm})" if known.checksum_algorithm else "no checksum"
    tags = "no tags" if known.tag_count is None else f"{known.tag_count} tags"
    return f"HeadObject shows {checksum} and {tags} of one object"


def _ranges(probed: ProbedBucket) -> str:
    sample = _sample(probed)
    if sample.size == 0:
        raise _UnknownError
    place = replace(probed.place, key=sample.key)
    known = buckets.head_object(probed.engine, place)
    if known.archived or known.size == 0:
        raise _UnknownError
    length = len(buckets.read_range(probed.engine, place, known, 0, 0))
    return "one byte of an object can be read" if length == 1 else f"ignored: {length} bytes came instead of 1"


def _sample(probed: ProbedBucket) -> ObjectInfo:
    if probed.sample is None or probed.sample.refusal is not None:
        raise _UnknownError
    return probed.sample


_PROBES: Final[dict[str, Callable[[ProbedBucket], str]]] = {
    "versions": _versions,
    "open uploads": _open_uploads,
    "lifecycle": _abort_rules,
    "object": _attributes,
    "ranges": _ranges,
}


# --- records ----------------------------------------------------------------------------------------------------------

_METHODS: Final = {
    "copy": "CopyObject",
    "multipart": "UploadPartCopy",
    "stream": "the bytes passing through this process",
}


def of_place(service: Service, place: S3Location) -> list[Capability]:
    """All of a place, found without a write.

    Raises:
        StorageError: it cannot be listed.
    """
    sample = next(iter(service.list_directory(place, limit=1).objects), None)
    probed = ProbedBucket(service.engine, service.database, place, "", sample, False, False)
    return [*find_capabilities(probed), copies(service, place)]


def copies(service: Service, place: S3Location) -> Capability:
    """Methods of copying in the newest transfers within this storage, from or to this bucket."""
    seen: dict[str, float] = {}
    within = (one for one in service.transfers(_TRANSFERS) if _is_within(one, place))
    for one, _ in zip(within, range(_LOOKED_INTO), strict=False):
        for record in service.objects(one.id, limit=_OBJECTS):
            if record.state == "done" and record.method in _METHODS:
                seen[record.method] = max(seen.get(record.method, 0.0), record.ended_at or 0.0)
        if {"copy", "multipart"} <= seen.keys():
            break
    if not seen:
        return Capability("copies", "no copy within this storage is on record, so how it copies is not known", None)
    text = ", ".join(_METHODS[method] for method in _METHODS if method in seen)
    return Capability(
        "copies", f"within this storage by {text}, as on record", max(time.time() - max(seen.values()), 0.0)
    )


def _is_within(one: Status, place: S3Location) -> bool:
    source, target = one.spec.source, one.spec.target
    return (
        one.ended
        and one.pruned_at is None
        and one.spec.kind.is_plain
        and isinstance(source, S3Location)
        and isinstance(target, S3Location)
        and place.bucket in (source.bucket, target.bucket)
        and endpoint_facts.endpoint_name(source)
        == endpoint_facts.endpoint_name(target)
        == endpoint_facts.endpoint_name(place)
    )
