"""The stored text of specs, and the digest of their submission, to the letter: both are on record in databases."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Final

import pytest

from seqferry.model.locations import LocalFolder, S3Location
from seqferry.model.models import KeyRange, TransferSpec
from seqferry.planning.cleanup import build_cleanup_spec
from seqferry.planning.removals import build_remove_spec
from seqferry.planning.unpacking import build_unpack_spec
from seqferry.spec import identity, stored
from seqferry.spec.build import build_mirror_spec, build_spec
from seqferry.spec.check import build_check_spec
from seqferry.spec.pack import build_pack_spec
from seqferry.spec.run import ListedCommand, build_run_spec

KEPT: Final[Mapping[str, Mapping[str, Any]]] = json.loads(
    (Path(__file__).parent / "stored_texts.json").read_text(encoding="utf-8")
)
"""As the first version writes them: ``text`` and ``submission``."""

PROPERTIES: Final[dict[str, Any]] = {
    "sse": "aws:kms",
    "sse_kms_key_id": "key",
    "bucket_key_enabled": True,
    "acl": "bucket-owner-full-control",
    "content_type": "text/plain",
    "content_encoding": "gzip",
    "content_language": "de",
    "content_disposition": "inline",
    "cache_control": "no-cache",
    "expires": "Wed, 21 Oct 2099 07:28:00 GMT",
    "metadata": ["b=2,a=1"],
    "metadata_directive": "COPY",
    "tags": {"run": "42", "lab": "ü"},
    "copy_props": "none",
    "checksum_algorithm": "SHA256",
    "object_lock_mode": "GOVERNANCE",
    "object_lock_until": "2099-01-01T02:00:00+02:00",
    "object_lock_legal_hold": True,
}
ENDPOINTS: Final[dict[str, Any]] = {
    "endpoint_url": "https://both.example",
    "source_endpoint_url": "https://one.example",
    "region": "eu-west-1",
    "target_region": "eu-central-1",
    "profile": "lab",
    "source_profile": "vendor",
    "no_sign_request": True,
    "request_payer": "requester",
    "attempts": 3,
}
CHOICES: Final[dict[str, Any]] = {
    "if_exists": "size",
    "verify": "content",
    "part_size": 16 << 20,
    "copy_threshold": 0,
    "storage_class": "GLACIER_IR",
    "rules": ["- *", "+ *.bam"],
    "min_size": 0,
    "max_size": 1 << 40,
    "newer_than": "7d",
    "older_than": "2099-11-01",
    "settle": "60s",
    "max_depth": 2,
    "restore": True,
    "restore_days": 3,
    "restore_tier": "Bulk",
    "rename": ["s/a/b/g"],
    "tpslimit": 20,
    "preflight": False,
}


def _spec(source: str | list[str] = "s3://from/run/", target: str = "s3://to/in/", **given: Any) -> TransferSpec:
    return build_spec(source, target, **given)


def _of_lines() -> TransferSpec:
    lines = [("s3://from/a", "s3://to/b"), ("s3://from/c", "s3://to/d"), ("s3://from/e/", "s3://to/f/")]
    commands = [ListedCommand(number, _spec(*line, part_size=5 << 20)) for number, line in enumerate(lines, 1)]
    return build_run_spec(commands, "list")


def _local(folder: Path, **given: Any) -> TransferSpec:
    spec = _spec(f"{folder}/", allow_local=True, **given)
    return replace(spec, source=replace(spec.source, path="/data"))


def _download(folder: Path) -> TransferSpec:
    spec = _spec("s3://from/run/", str(folder), allow_local=True, page_cache=True, preserve_permissions=True)
    return replace(spec, target=replace(spec.target, path="/data"))


MADE: Final[Mapping[str, Callable[[Path], TransferSpec]]] = {
    "default": lambda _: _spec(),
    "one object": lambda _: _spec("s3://from/run/ü.bam", "s3://to/in/"),
    "all choices": lambda _: _spec(**CHOICES, **ENDPOINTS),
    "all properties": lambda _: _spec(**PROPERTIES),
    "empty properties": lambda _: _spec(tags=[], metadata={}, grants=[], sse="none", copy_props="default"),
    "grants and lock of the source": lambda _: _spec(
        grants=["read=id=79a5", "full=emailaddress=a@example.org"], object_lock="copy"
    ),
    "metadata as JSON": lambda _: _spec(metadata=['{"a": "1,b=2"}'], tags=["a=1", "b=2,c=3"]),
    "removal": lambda _: _spec(delete=True, max_delete=0, rules=()),
    "upload": lambda folder: _local(folder, md5=True, symlinks="keep", empty_directories=True, settle="0s"),
    "download": _download,
    "list": lambda _: _spec(
        "s3://from/run", keys=["a", "b"], versions=["", "v"], targets=["x", ""], if_exists="overwrite"
    ),
    "sources": lambda _: _spec(["s3://from/a/", "s3://from/b/c.bam", "s3://from/d/*.gz"], "s3://to/in"),
    "wildcard": lambda _: _spec("s3://from/run/*.bam"),
    "wildcard as it is": lambda _: _spec("s3://from/run/a*.bam", raw=True),
    "version": lambda _: _spec("s3://from/run/a", "s3://to/b", version_id="v1"),
    "all versions": lambda _: _spec(all_versions=True),
    "inventory": lambda _: _spec(inventory="s3://inv/d/2026-11-23T01-00Z/manifest.json"),
    "keys of SSE-C": lambda _: _spec(
        sse_c_key="env:SEQFERRY_SSE_C_TO", sse_c_copy_source_key="env:SEQFERRY_SSE_C_FROM", endpoint_url="https://s.e"
    ),
    "mirror": lambda _: build_mirror_spec("from", "run", ["a", "a", "b"], "to", "in", part_size=5 << 20),
    "check": lambda _: build_check_spec("s3://from/run/", "s3://to/in/", one_way=True),
    "pack": lambda _: build_pack_spec("s3://from/run/", "s3://to/run.tar", split=1 << 30, storage_class="GLACIER"),
    "unpack": lambda _: build_unpack_spec("s3://from/run.tar", "s3://to/in/", members=["a"], min_size=1),
    "rm": lambda _: build_remove_spec(["s3://from/run/"], recursive=True, rules=["- *.tmp"], most=9),
    "cleanup": lambda _: build_cleanup_spec("s3://from/"),
    "run": lambda _: _of_lines(),
    "retry": lambda _: replace(_spec(), retry_of="0192"),
}


def _made(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> TransferSpec:
    for variable in ("SEQFERRY_SSE_C_TO", "SEQFERRY_SSE_C_FROM"):
        monkeypatch.setenv(variable, "0" * 32)
    for variable in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(variable)
    for variable in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(variable, str(folder / "none"))
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "x")
    spec = MADE[name](folder)
    return spec if spec.as_of is None else replace(spec, as_of=1764186000.25)


@pytest.mark.parametrize("name", MADE)
def test_the_stored_text_of_a_spec_stays_as_it_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = _made(name, tmp_path, monkeypatch)

    assert stored.write(spec) == KEPT[name]["text"]
    assert stored.read(KEPT[name]["text"]) == spec
    assert identity.submission_digest(spec) == KEPT[name]["submission"]
    assert stored.features(spec) == []


def test_the_texts_hold_every_field() -> None:
    texts = [json.loads(one["text"]) for one in KEPT.values()]
    held = {name for text in texts for name in text}
    of_places = {name for text in texts for side in ("source", "target") for name in text[side]}

    later = {"files_from", "files_format"}  # of schedules alone: no worker is handed such a spec
    assert held == {*stored.stored_values(_spec()), "version"} - later
    for kind in (S3Location, LocalFolder):
        # Filled in when a spec is resolved, or placed on a host.
        assert {one.name for one in fields(kind)} - {"access", "sse_c_proof", "host", "root"} <= of_places
    assert {one.name for one in fields(KeyRange)} == {
        name for text in texts for one in text.get("ranges", ()) for name in one
    }
