"""The stored form of a spec: JSON with a version, an operation and tagged places, read by older and newer versions.

What must stay true: a reader refuses with words (``UnsupportedError``) what it does not know (a version, a field, a
value), and never passes over it. A writer leaves out fields that hold their default, so that older readers refuse only
what they cannot do. ``VERSION`` is raised when a field changes its meaning or goes; a new field needs no new version.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import MISSING, fields
from functools import cache
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, Union, cast, get_args, get_origin, get_type_hints

from seqferry.model.errors import SeqferryError, UnsupportedError
from seqferry.model.frozen import frozen
from seqferry.model.locations import Access, Identity, LocalFolder, Location, S3Location
from seqferry.model.models import RETRY_CAUSE, KeyRange, ResolvedSpec, TransferSpec
from seqferry.model.operations import OPERATIONS
from seqferry.model.option_fields import is_of_texts
from seqferry.model.option_groups import MEMBER_OF, MEMBERS

VERSION: Final = 2

PARTS: Final = "parts"
"""Option of a run: its parts, each with its own stored ``spec`` and the numbers of its ``lines``."""

_PLACES: Final[dict[str, type[S3Location | LocalFolder]]] = {"s3": S3Location, "folder": LocalFolder}
_TAGS: Final = {kind: tag for tag, kind in _PLACES.items()}

_FIRST_VERSION: Final = 2
_FIRST_PLACES: Final = frozenset({"s3", "folder"})
# fmt: off
_FIRST_FIELDS: Final = frozenset({
    "source", "target", "strip", "single", "keys", "if_exists", "verify", "part_size", "copy_threshold",
    "storage_class", "md5", "delete", "max_delete", "pattern", "rules", "min_size", "max_size", "newer_than",
    "older_than", "as_of", "versions", "targets", "ranges", "rename", "inventory", "restore", "restore_days",
    "restore_tier", "settle", "content_type", "content_encoding", "content_language", "content_disposition",
    "cache_control", "expires", "metadata", "metadata_directive", "tags", "copy_props", "checksum_algorithm", "sse",
    "sse_kms_key_id", "bucket_key_enabled", "acl", "grants", "object_lock", "object_lock_mode", "object_lock_until",
    "object_lock_legal_hold", "tpslimit", "preflight", "max_depth", "operation", "options", "retry_of",
    "bucket", "key", "endpoint_url", "region", "profile", "anonymous", "access", "request_payer", "attempts", "sse_c",
    "sse_c_proof",
    "path", "symlinks", "empty_directories", "page_cache", "preserve_permissions", "host", "root",
    "access.identity", "access.ca_bundle", "access.fips", "access.dual_stack", "access.accelerate",
    "access.path_style", "access.sign_bodies",
    "identity.source", "identity.profile", "identity.role", "identity.proof",
    "ranges.key", "ranges.strip", "ranges.single", "ranges.pattern", "ranges.into",
})
# fmt: on
_FIRST_VALUES: Final[dict[str, tuple[Any, ...]]] = {
    "if_exists": ("same", "size", "skip", "overwrite", "fail"),
    "verify": ("auto", "checksum", "content"),
    "restore_tier": ("Standard", "Bulk", "Expedited"),
    "metadata_directive": ("COPY", "REPLACE"),
    "copy_props": ("none", "metadata-directive", "default"),
    "checksum_algorithm": ("CRC64NVME", "CRC32", "CRC32C", "SHA1", "SHA256"),
    "sse": ("AES256", "aws:kms", "aws:kms:dsse", "none"),
    "object_lock": ("copy",),
    "object_lock_mode": ("GOVERNANCE", "COMPLIANCE"),
    "symlinks": ("follow", "skip", "keep"),
    "identity.source": ("anonymous", "environment", "session", "profile", "web_identity", "container", "instance"),
}
"""Values that the first version knows. These lists stay: later additions are features, see ``features``."""

_FIRST_OPTIONS: Final[dict[str, frozenset[str]]] = {
    "transfer": frozenset(),
    "pack": frozenset({"split", "no_index"}),
    "unpack": frozenset({"members", "index", "links", "duplicates", "tolerate", "empty_directories", "no_sync"}),
    "move": frozenset(),
    "remove": frozenset({"versions", "version_id", "exact", "most", "expected"}),
    "check": frozenset({"one_way"}),
    "cleanup": frozenset({"most", "expected"}),
    "history": frozenset(),
    "run": frozenset({PARTS}),
    "verify": frozenset({"of", "brought_by", "content", PARTS}),
    "gateway": frozenset({"share", "journal", "epoch", "renamed_from", "renamed_to"}),
}
"""The operations of the first version, each with its options. A later operation gets an entry with the options that it
begins with."""

_OF_ALL: Final = frozenset({RETRY_CAUSE})
"""Options of all operations alike."""

_NESTED: Final[dict[str, type[Any]]] = {"access": Access, "identity": Identity, "ranges": KeyRange}
"""Records within a spec or a place, by the names that features have for them: ``field access.fips``."""

_Record = TypeVar("_Record")


def write(spec: TransferSpec) -> str:
    """The spec as text."""
    data: dict[str, Any] = {"version": VERSION, "operation": spec.operation}
    for side, place in (("source", spec.source), ("target", spec.target)):
        data[side] = {"type": _TAGS[type(place)], **_non_defaults(place)}
    return json.dumps({**_non_defaults(spec, without=("source", "target")), **data}, ensure_ascii=False, sort_keys=True)


def read(text: str) -> ResolvedSpec:
    """The spec that was stored, by this version or another; it was checked and resolved before.

    Raises:
        UnsupportedError: the spec holds a field or value that this version does not know.
    """
    try:
        data: Any = json.loads(text)
    except ValueError:
        raise UnsupportedError.of("a spec that is no JSON") from None
    data = _mapping(data, "spec")
    if (version := data.pop("version", None)) != VERSION:
        raise UnsupportedError.of(f"version {version} of the spec")
    for side in ("source", "target"):
        if side in data:
            data[side] = _place(data[side], side)
    data |= {name: tuple(data[name]) for name in _lists() if isinstance(data.get(name), list)}
    if isinstance(data.get("ranges"), list):
        found = (_mapping(one, "source") for one in cast("list[Any]", data["ranges"]))
        data["ranges"] = tuple(_record(KeyRange, one, "source") for one in found)
    return ResolvedSpec.of(_record(TransferSpec, data, "spec"))


def is_same(stored: str, recorded: str) -> bool:
    """True when two texts mean the same: one may have been brought to a newer form."""
    try:
        return json.loads(stored) == json.loads(recorded) or read(stored) == read(recorded)
    except (SeqferryError, ValueError, TypeError, KeyError, AttributeError):
        return False


def read_legible(text: str) -> tuple[ResolvedSpec, UnsupportedError | None]:
    """The spec as far as it can be shown to a person, and what this version does not know of it.

    Not for doing the transfer: what is not known is left out.
    """
    try:
        return read(text), None
    except UnsupportedError as why:
        return ResolvedSpec.of(_legible(text)), why


def features(spec: TransferSpec) -> list[str]:
    """Features of the spec that workers of the first version do not know: ``operation pack``."""
    found = [] if spec.operation in _FIRST_OPTIONS else [f"operation {spec.operation}"]
    found += [f"version {VERSION}"] if VERSION != _FIRST_VERSION else []
    tags = (_TAGS[type(place)] for place in (spec.source, spec.target))
    found += [f"place {tag}" for tag in tags if tag not in _FIRST_PLACES]
    for where, record in _records(spec):
        for field, value in _non_defaults(record).items():
            name = f"{where}{field}"
            if name not in _FIRST_FIELDS:
                found.append(f"field {name}")
            elif value not in _FIRST_VALUES.get(name, (value,)):
                found.append(f"value {name}={value}")
    first = _FIRST_OPTIONS.get(spec.operation)
    if first is not None:
        found += [f"option {spec.operation}.{name}" for name in sorted(spec.options.keys() - first - _OF_ALL)]
    if PARTS in spec.options:
        found += _features_of_parts(spec.options.get(PARTS))
    return list(dict.fromkeys(found))


def find_unknown_feature(features: Iterable[str]) -> str | None:
    """The first of the ``features`` that this version does not know, as text."""
    for feature in features:
        kind, _, name = feature.partition(" ")
        if not (name in OPERATIONS if kind == "operation" else is_known(kind, name)):
            return f"a version of Seqferry that knows the {feature}"
    return None


def _records(spec: TransferSpec) -> Iterator[tuple[str, TransferSpec | Location | Access | Identity | KeyRange]]:
    """The records that make up a spec, each with the start of the names that features have for its fields."""
    yield "", spec
    for place in (spec.source, spec.target):
        yield "", place
        if isinstance(place, S3Location) and place.access is not None:
            yield "access.", place.access
            yield "identity.", place.access.identity
    for one in spec.ranges:
        yield "ranges.", one


def _features_of_parts(parts: Any) -> Iterator[str]:
    """Features of the specs within a run. One that this version cannot read is a feature as a whole."""
    stored = cast("Sequence[Any]", parts) if isinstance(parts, (list, tuple)) else ()
    for part in stored:
        try:
            yield from features(read(_mapping(part, "part").get("spec", "")))
        except UnsupportedError as why:
            yield f"part with {why.what}"


def is_known(kind: str, name: str) -> bool:
    """True when this version knows a feature other than an operation: a version, place, field, option or value."""
    named, _, value = name.partition("=")
    where, _, field = named.rpartition(".")
    nested = (_NESTED[where],) if where in _NESTED else ()
    records = nested if where else (TransferSpec, S3Location, LocalFolder)
    match kind:
        case "version":
            return name == str(VERSION)
        case "place":
            return name in _PLACES
        case "field":
            return any(field in _hints(record) for record in records)
        case "option":
            return where in _FIRST_OPTIONS and field in _FIRST_OPTIONS[where] | _OF_ALL
        case "value":
            return any(field in _hints(record) and _fits(value, _hints(record)[field]) for record in records)
        case _:
            return False


@frozen
class UnknownLocation:
    """A location of a kind that this version does not know: it is shown, never read or written."""

    kind: str
    key: str = ""
    container: str = ""

    @property
    def uri(self) -> str:
        return self.at(self.key)

    def at(self, key: str) -> str:
        return f"({self.kind}) {key}".rstrip()


def _legible(text: str) -> TransferSpec:
    try:
        data: Any = json.loads(text)
        data = _mapping(data, "spec")
    except (ValueError, UnsupportedError):
        data = {}
    known = _keep_known(TransferSpec, data)
    known |= {side: _legible_place(data.get(side)) for side in ("source", "target")}
    for name in _lists():
        if isinstance(data.get(name), list):
            known |= _keep_known(TransferSpec, {name: tuple(data[name])})
    return _make(TransferSpec, known)


def _legible_place(data: Any) -> Location:
    if not isinstance(data, dict):
        return cast("Location", UnknownLocation("unknown"))
    found = cast("dict[str, Any]", data)
    kind = _PLACES.get(str(found.get("type")))
    if kind is None:
        key = found.get("key")
        return cast("Location", UnknownLocation(str(found.get("type"))[:40], key if isinstance(key, str) else ""))
    known = _keep_known(kind, found)
    # The identity that may read it is not shown.
    known.pop("access", None)
    needed: dict[str, Any] = {name: "" for name, need in _needs_of(kind).items() if need}
    return kind(**needed | known)


def _keep_known(kind: type[Any], data: Mapping[str, Any]) -> dict[str, Any]:
    """Fields of ``data`` that this version knows and that hold what it knows."""
    hints = _hints(kind)
    return {name: data[name] for name in hints if name in data and _fits(data[name], hints[name])}


def _place(data: Any, side: str) -> Location:
    found = _mapping(data, side)
    tag = found.pop("type", None)
    kind = _PLACES.get(tag) if isinstance(tag, str) else None
    if kind is None:
        raise UnsupportedError.of(f"a {side} of the type '{tag}'")
    if found.get("access") is not None:
        access = _mapping(found["access"], f"access of the {side}")
        identity = _mapping(access.get("identity"), f"identity at the {side}")
        access["identity"] = _record(Identity, identity, f"identity at the {side}")
        found["access"] = _record(Access, access, f"access of the {side}")
    return _record(kind, found, side)


def _record(kind: type[_Record], data: dict[str, Any], where: str) -> _Record:
    """A value of ``kind`` out of its fields, none of them unknown or of another type."""
    hints = _hints(kind)
    for name, value in data.items():
        if name not in hints:
            raise UnsupportedError.of(f"the field '{name}' in its {where}")
        if not _fits(value, hints[name]):
            raise UnsupportedError.of(f"{_short(value)} as '{name}' of its {where}")
    for name, needed in _needs_of(kind).items():
        if needed and name not in data:
            raise UnsupportedError.of(f"no '{name}' in its {where}")
    return _make(kind, data)


def _make(kind: type[_Record], known: Mapping[str, Any]) -> _Record:
    """A value of ``kind`` out of its fields, which of a spec are those of its groups as well."""
    if kind is not TransferSpec:
        return kind(**known)
    own: dict[str, Any] = {}
    groups: dict[str, dict[str, Any]] = {}
    for name, value in known.items():
        member = MEMBER_OF.get(name)
        (own if member is None else groups.setdefault(member, {}))[name] = value
    return kind(**own, **{member: MEMBERS[member](**found) for member, found in groups.items()})


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _mapping(data: Any, where: str) -> dict[str, Any]:
    if not isinstance(data, dict):
        raise UnsupportedError.of(f"{_short(data)} as its {where}")
    return dict(cast("dict[str, Any]", data))


@cache
def _hints(kind: type[Any]) -> dict[str, Any]:
    """The types of the fields by their names as they are stored: options are fields of the spec."""
    found = get_type_hints(kind)
    if kind is TransferSpec:
        of_groups = [get_type_hints(group) for group in MEMBERS.values()]
        found |= {name: hint for hints in of_groups for name, hint in hints.items() if name in MEMBER_OF}
    return {name: hint for name, hint in found.items() if kind is not TransferSpec or name not in MEMBERS}


@cache
def _lists() -> tuple[str, ...]:
    """Fields of a spec that are lists of texts in JSON."""
    return tuple(name for name, hint in _hints(TransferSpec).items() if is_of_texts(hint))


@cache
def _needs_of(kind: type[Any]) -> dict[str, bool]:
    """The fields, and whether each has to be there."""
    return {one.name: one.default is MISSING and one.default_factory is MISSING for one in fields(kind)}


def _fits(value: Any, hint: Any) -> bool:
    """True when a value is one of a field with this annotation. Of containers only those in our records are known."""
    origin = get_origin(hint)
    if origin in (Union, UnionType):
        return any(_fits(value, one) for one in get_args(hint))
    if origin is Literal:
        return value in get_args(hint)
    if origin is tuple:
        kind = get_args(hint)[0]
        return isinstance(value, tuple) and all(isinstance(one, kind) for one in cast("tuple[Any, ...]", value))
    if hint in (int, NoneType):
        return type(value) is hint
    return isinstance(value, dict if origin is not None else hint)


def _non_defaults(
    record: TransferSpec | Location | Access | Identity | KeyRange, without: tuple[str, ...] = ()
) -> dict[str, Any]:
    """The fields that do not hold their default."""
    is_spec = isinstance(record, TransferSpec)
    found = stored_values(record) if is_spec else _own(record)
    defaults = _defaults(TransferSpec if is_spec else type(record))
    return {name: _plain(found[name]) for name in defaults if name not in without and found[name] != defaults[name]}


def _own(record: Any) -> dict[str, Any]:
    return {one.name: getattr(record, one.name) for one in fields(record)}


@cache
def _defaults(kind: type[Any]) -> dict[str, Any]:
    """Defaults of the fields by their names as they are stored; ``MISSING``: it has none."""
    found = {one.name: one.default if one.default_factory is MISSING else one.default_factory() for one in fields(kind)}
    if kind is not TransferSpec:
        return found
    for member in MEMBERS:
        found |= _own(found.pop(member))
    return found


def stored_values(spec: TransferSpec) -> dict[str, Any]:
    """The values of a spec by their stored names; options are fields of the spec."""
    own = {one.name: getattr(spec, one.name) for one in fields(spec) if one.name not in MEMBERS}
    return own | {name: getattr(getattr(spec, member), name) for name, member in MEMBER_OF.items()}


def _plain(value: Any) -> Any:
    """A field as JSON can hold it."""
    if isinstance(value, (Access, Identity)):
        return _non_defaults(value)
    if isinstance(value, tuple) and value and isinstance(value[0], KeyRange):
        return [_non_defaults(cast("KeyRange", one)) for one in cast("tuple[Any, ...]", value)]
    return cast("Any", value)
