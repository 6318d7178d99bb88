"""Lines as users of other tools type them: each does what was meant, as the storage shows, or is answered.

``test_cli_fingers`` has the aliases; here each row has its effect.
"""

from __future__ import annotations

import urllib.request
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cli_process import Cli, CliResult, Places

from support.servers import REGION

NEW = {"a.txt": b"content of 'a.txt'", "b.log": b"content of 'b.log'", "d/c.txt": b"content of 'd/c.txt'"}
OLD = {"a.txt": b"old", "kept": b"kept"}
"""What is at the target before."""

UNTOUCHED = OLD
ALL = {**OLD, **NEW}


@dataclass(frozen=True)
class LineOutcome:
    """Result of a typed line: buckets, exit code, output and local folder."""

    places: Places
    ran: CliResult
    folder: Path

    def head(self, name: str = "d/c.txt", **options: Any) -> dict[str, Any]:
        found: dict[str, Any] = self.places.s3.head_object(Bucket=self.places.target, Key=f"archive/{name}", **options)
        return found

    def source(self) -> set[str]:
        listed = self.places.s3.list_objects_v2(Bucket=self.places.source, Prefix="run42/")
        return {each["Key"].removeprefix("run42/") for each in listed.get("Contents", [])}


Check = Callable[[LineOutcome], object]


def _type_is(wanted: str) -> Check:
    return lambda seen: seen.head()["ContentType"] == wanted


def _metadata_is(wanted: dict[str, str]) -> Check:
    return lambda seen: seen.head()["Metadata"] == wanted


def _prints(text: str) -> Check:
    return lambda seen: text in seen.ran.out


def _source_has(*names: str) -> Check:
    return lambda seen: seen.source() == set(names)


def _is_fetched(seen: LineOutcome) -> bool:
    with urllib.request.urlopen(seen.ran.out.strip(), timeout=60) as answer:
        return bool(answer.read() == NEW["a.txt"])


def _is_at(name: str, content: bytes) -> Check:
    return lambda seen: (seen.folder / name).read_bytes() == content


def _no_uploads(seen: LineOutcome) -> bool:
    return seen.places.open_uploads() == []


def _nothing_more(_: LineOutcome) -> bool:
    return True


COPIED: list[tuple[str, dict[str, bytes], Check]] = [
    # What happens already.
    ("cp SRC DST --recursive", ALL, _nothing_more),
    ("cp SRC DST -r", ALL, _nothing_more),
    ("cp --progress SRC DST", ALL, _nothing_more),
    ("cp -P SRC DST", ALL, _nothing_more),
    ("cp -v SRC DST", ALL, _nothing_more),
    ("cp --show-progress SRC DST", ALL, _nothing_more),
    ("cp --expected-size 1000 SRC DST", ALL, _nothing_more),
    ("cp --no-guess-mime-type SRC DST", ALL, _nothing_more),
    # Our words under other names.
    ("cp --only-show-errors SRC DST", ALL, lambda seen: seen.ran.out == seen.ran.err == ""),
    ("copy --bwlimit 100M SRC DST", ALL, _nothing_more),
    ("copy --transfers 2 SRC DST", ALL, _nothing_more),
    ("cp --concurrency 2 SRC DST", ALL, _nothing_more),
    ("cp --numworkers 2 SRC DST", ALL, _nothing_more),
    ("copy --ignore-existing SRC DST", {**NEW, **OLD}, _nothing_more),
    ("cp -n SRC DST", {**NEW, **OLD}, _nothing_more),
    ("copy -n SRC DST", UNTOUCHED, _nothing_more),
    ("copy --checksum SRC DST", ALL, _nothing_more),
    ("cp --no-follow-symlinks TMP/linked DST", {**OLD, "plain": b"plain"}, _nothing_more),
    (f"cp SRC DST --source-region {REGION} --destination-region {REGION}", ALL, _nothing_more),
    ("cat SRCa.txt", UNTOUCHED, _prints("content of 'a.txt'")),
    ("pipe DSTpiped", {**OLD, "piped": b""}, _nothing_more),
    ("rcat DSTpiped", {**OLD, "piped": b""}, _nothing_more),
    ("copy SRC DST", ALL, _nothing_more),
    ("copyto SRCa.txt DSTz.txt", {**OLD, "z.txt": NEW["a.txt"]}, _nothing_more),
    ("cp --part-size 64 SRC DST", ALL, _nothing_more),
    # Options before the verb.
    ("--endpoint-url URL cp SRC DST", ALL, _nothing_more),
    ("--profile typed cp SRC DST", ALL, _nothing_more),
    ("--json cp SRC DST", ALL, lambda seen: seen.ran.events[-1]["objects_done"] == 3),
    ("--dry-run cp SRC DST", UNTOUCHED, _nothing_more),
    # Options that were missing.
    ("cp SRC DST --exclude *.txt", {**OLD, "b.log": NEW["b.log"]}, _nothing_more),
    ("cp SRC DST --exclude * --include *.log", {**OLD, "b.log": NEW["b.log"]}, _nothing_more),
    ("cp --files-from TMP/list SRC DST", {**OLD, "b.log": NEW["b.log"]}, _nothing_more),
    ("cp --acl private SRC DST", ALL, _nothing_more),
    ("cp --request-payer requester SRC DST", ALL, _nothing_more),
    ("cp --content-type text/x-typed SRC DST", ALL, _type_is("text/x-typed")),
    ("cp --metadata typed=yes SRC DST", ALL, _metadata_is({"typed": "yes"})),
    (
        "cp --metadata typed=yes --metadata-directive COPY SRC DST",
        ALL,
        _metadata_is({"typed": "yes", "lab": "7"}),
    ),
    ("cp --metadata-directive REPLACE --metadata typed=yes SRC DST", ALL, _metadata_is({"typed": "yes"})),
    ("cp --copy-props none SRC DST", ALL, _metadata_is({})),
    ("cp SRC DST", ALL, _metadata_is({"lab": "7"})),
    ("cp --checksum-algorithm CRC32 SRC DST", ALL, lambda seen: "ChecksumCRC32" in seen.head(ChecksumMode="ENABLED")),
    ("copy --min-age 7d SRC DST", UNTOUCHED, _nothing_more),
    ("copy --max-age 7d SRC DST", ALL, _nothing_more),
    ("ls --human-readable --summarize --recursive SRC", UNTOUCHED, _prints("Total Objects: 3")),
    # Verbs and forms that were missing.
    ("rm SRCa.txt", UNTOUCHED, _source_has("b.log", "d/c.txt")),
    ("rm --recursive SRC", UNTOUCHED, _source_has()),
    ("mv SRCa.txt DST", {**OLD, "a.txt": NEW["a.txt"]}, _source_has("b.log", "d/c.txt")),
    ("mv SRC DST --recursive", ALL, _source_has()),
    ("du SRC", UNTOUCHED, _prints("3 objects")),
    ("size SRC", UNTOUCHED, _prints("3 objects")),
    ("presign SRCa.txt", UNTOUCHED, _is_fetched),
    ("head SRCa.txt", UNTOUCHED, _prints("text/x-run")),
    ("cleanup DST --older-than 0s", UNTOUCHED, _no_uploads),
    ("run TMP/commands", ALL, _nothing_more),
    ("help", UNTOUCHED, _prints("seqferry")),
    ("version", UNTOUCHED, _prints("seqferry ")),
    ("mount --help", UNTOUCHED, _prints("mount")),
    ("cp SRC*.txt DST", {**OLD, "a.txt": NEW["a.txt"], "d/c.txt": NEW["d/c.txt"]}, _nothing_more),
    ("cp SRCa.txt SRCb.log DST", {**OLD, "a.txt": NEW["a.txt"], "b.log": NEW["b.log"]}, _nothing_more),
    ("cp TMP/plain TMP/list DST", {**OLD, "plain": b"plain", "list": b"b.log\n"}, _nothing_more),
    ("cp SRCa.txt TMP/down", UNTOUCHED, _is_at("down", NEW["a.txt"])),
    ("lsl SRC", UNTOUCHED, _prints("d/c.txt")),
    ("cat SRC*.txt", UNTOUCHED, _prints("content of 'a.txt'content of 'd/c.txt'")),
    ("cat --head 7 SRC*.txt", UNTOUCHED, _prints("contentcontent")),
    ("du SRC*.txt", UNTOUCHED, _prints("2 objects")),
    ("ls SRC*.log", UNTOUCHED, _prints("b.log")),
    ("s3 cp SRC DST --recursive", ALL, _nothing_more),
    ("copy --tpslimit 50 SRC DST", ALL, _nothing_more),
    ("--quiet cp SRC DST", ALL, lambda seen: seen.ran.err == ""),
    ("--numworkers 2 cp SRC DST", ALL, _nothing_more),
]


@pytest.fixture
def places(versitygw_places: Places) -> Places:
    return versitygw_places


@pytest.mark.parametrize(("typed", "left", "check"), COPIED, ids=[typed for typed, _, _ in COPIED])
def test_a_typed_line_has_the_effect_that_was_meant(
    cli: Cli, places: Places, tmp_path: Path, typed: str, left: dict[str, bytes], check: Check
) -> None:
    _fill(places, tmp_path)

    ran = cli.run(*_words(typed, places, tmp_path), env=_environment(places, tmp_path))

    assert ran.code == (4 if "--min-age" in typed else 0), ran.err
    assert places.content() == left
    assert check(LineOutcome(places, ran, tmp_path)), ran.out + ran.err


ANSWERED = [
    ("sync --filter -_*.log SRC DST", 2, "--exclude"),
    ("sync --exact-timestamps SRC DST", 2, "leave it out"),
    ("cp --force-glacier-transfer SRC DST", 2, "--restore"),
    ("cp --flatten SRC DST", 2, "wildcard"),
    ("copy --backup-dir x SRC DST", 2, "keeps versions"),
    ("cp --no-verify-ssl SRC DST", 2, "AWS_CA_BUNDLE"),
    ("cp --debug SRC DST", 2, "SEQFERRY_TRACE"),
    ("copy --retries 3 SRC DST", 2, "--attempts"),
    ("cp --sse-kms-key-id k SRC DST", 2, "--sse aws:kms"),
    ("md5sum SRC", 2, "seqferry check"),
    ("check SRC DST", 3, ""),
    ("cp s3:vendor/run42/ DST", 2, "s3://vendor/run42/"),
    ("cp SLASHLESS DST", 2, "did you mean"),
    ("cp file://TMP/plain DST", 2, "without file://"),
    ("cp SRC*.gz DST", 4, ""),
    ("cp TMP/plain SRCa.txt DST", 2, "one command for each"),
    ("frobnicate SRC DST", 2, "frobnicate"),
    ("copy --tpslimit-burst 5 SRC DST", 2, "--tpslimit N"),
    ("--no-sign-request cp SRC DST", 1, "AccessDenied"),
    ("cpy SRC DST", 2, "Did you mean 'cp'?"),
    ("cp --checksum-algorithm crc32 SRC DST", 2, "'crc32' is not one of"),
    ("cp missing.bam other.bam DST", 2, "write s3://bucket/key"),
    ("cat SRC*.gz", 4, "nearest: "),
    ("rm SRC", 2, "--recursive"),
    ("cp --dry-rnu SRC DST", 2, "--dry-run"),
    ("head SRCmissing", 1, "seqferry ls"),
]


@pytest.mark.parametrize(("typed", "code", "said"), ANSWERED, ids=[typed for typed, _, _ in ANSWERED])
def test_a_line_that_cannot_be_meant_is_answered_and_changes_nothing(
    cli: Cli, places: Places, tmp_path: Path, typed: str, code: int, said: str
) -> None:
    _fill(places, tmp_path)

    ran = cli.run(*_words(typed, places, tmp_path), env=_environment(places, tmp_path))

    assert ran.code == code, ran.err
    assert said in ran.err
    assert "Traceback" not in ran.err
    assert "Value error" not in ran.err
    assert ".." not in ran.err.replace("...", "")
    assert places.content() == UNTOUCHED
    assert LineOutcome(places, ran, tmp_path).source() == set(NEW)


def test_encryption_is_had_or_nothing_stays(cli: Cli, places: Places, tmp_path: Path) -> None:
    _fill(places, tmp_path)

    ran = cli.run("cp", "--sse", "AES256", f"{places.uris[0]}d/", f"{places.uris[1]}d/")

    if ran.code == 0:
        head = places.s3.head_object(Bucket=places.target, Key="archive/d/c.txt")
        assert head["ServerSideEncryption"] == "AES256"
    else:
        assert (ran.code, "AES256" in ran.err) == (1, True), ran.err
        assert places.content() == OLD


def test_buckets_are_made_listed_and_removed_as_typed(cli: Cli, places: Places) -> None:
    bucket = f"typed-{uuid.uuid4().hex[:12]}"
    admin = places.server.environment(places.server.admin)

    made, listed = cli.run("mb", f"s3://{bucket}", env=admin), cli.run("ls", env=admin)

    assert (made.code, listed.code) == (0, 0), made.err + listed.err
    assert bucket in listed.out
    assert bucket in _buckets(places)
    assert cli.run("rb", f"s3://{bucket}", env=admin).code == 0
    assert bucket not in _buckets(places)


def _buckets(places: Places) -> set[str]:
    return {each["Name"] for each in places.server.client().list_buckets()["Buckets"]}


def _fill(places: Places, folder: Path) -> None:
    for name, content in NEW.items():
        places.s3.put_object(
            Bucket=places.source, Key=f"run42/{name}", Body=content, ContentType="text/x-run", Metadata={"lab": "7"}
        )
    for name, content in OLD.items():
        places.s3.put_object(Bucket=places.target, Key=f"archive/{name}", Body=content)
    places.s3.create_multipart_upload(Bucket=places.target, Key="archive/left")
    (folder / "plain").write_bytes(b"plain")
    (folder / "list").write_bytes(b"b.log\n")
    (folder / "commands").write_text(" ".join(_words("cp SRC DST", places, folder)) + "\n")
    (folder / "linked").mkdir()
    (folder / "linked" / "plain").write_bytes(b"plain")
    (folder / "linked" / "link").symlink_to(folder / "plain")


def _words(typed: str, places: Places, folder: Path) -> list[str]:
    found = typed.split()
    words = {
        "SRC": places.uris[0],
        "SLASHLESS": places.uris[0].rstrip("/"),
        "DST": places.uris[1],
        "URL": places.server.endpoint_url,
        "TMP": str(folder),
    }
    for word, meant in words.items():
        found = [each.replace(word, meant) for each in found]
    return found


def _environment(places: Places, folder: Path) -> dict[str, str]:
    """With a profile of the same keys, for the line that names one."""
    own = places.server.environment()
    file = folder / "credentials"
    file.write_text(
        f"[typed]\naws_access_key_id = {own['AWS_ACCESS_KEY_ID']}\n"
        f"aws_secret_access_key = {own['AWS_SECRET_ACCESS_KEY']}\n"
    )
    return {"AWS_SHARED_CREDENTIALS_FILE": str(file)}
