"""Requests of real commands against the rights that ``seqferry iam-policy`` prints for them."""

from __future__ import annotations

import fnmatch
import io
import json
import os
from collections.abc import Callable, Container, Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from botocore.exceptions import ClientError

from seqferry.cli import app
from seqferry.model import permissions
from support.buckets import CLAIM
from support.gateways import ServedShares, WrittenShares, missing_libnfs, read, written_share
from support.mounts import Mount, Mounter, gone, missing_fuse
from support.mover import MIB, SMALL_PARTS, Mover
from support.processes import run, seqferry
from support.proxy import Proxy, Record, held
from support.servers import ADMIN, S3Server
from support.waiting import eventually

BucketFactory = Callable[..., str]

BUCKET_ACTIONS = {
    "HeadBucket": "s3:ListBucket",
    "ListObjectsV2": "s3:ListBucket",
    "ListObjectVersions": "s3:ListBucketVersions",
    "ListMultipartUploads": "s3:ListBucketMultipartUploads",
}
OBJECT_ACTIONS = {
    "HeadObject": ("s3:GetObject", "s3:GetObjectVersion"),
    "GetObject": ("s3:GetObject", "s3:GetObjectVersion"),
    "GetObjectTagging": ("s3:GetObjectTagging", "s3:GetObjectVersionTagging"),
    "PutObject": ("s3:PutObject", None),
    "CopyObject": ("s3:PutObject", None),
    "CreateMultipartUpload": ("s3:PutObject", None),
    "UploadPart": ("s3:PutObject", None),
    "UploadPartCopy": ("s3:PutObject", None),
    "CompleteMultipartUpload": ("s3:PutObject", None),
    "AbortMultipartUpload": ("s3:AbortMultipartUpload", None),
    "ListParts": ("s3:ListMultipartUploadParts", None),
    "DeleteObject": ("s3:DeleteObject", "s3:DeleteObjectVersion"),
    "DeleteObjects": ("s3:DeleteObject", "s3:DeleteObjectVersion"),
}
"""Actions by request, without and with a version of the object, as the documentation of S3 has them."""

EXCUSED = {
    "s3:DeleteObject": "of a target: a copy that proves wrong is removed, and these servers make none",
    "s3:GetEncryptionConfiguration": "of a target: asked where the source is encrypted on purpose",
    "s3:PutObjectAcl": "asked for by a header of a request, which no record shows",
    "s3:GetObjectRetention": "asked for by the headers of a reply",
    "s3:GetObjectLegalHold": "asked for by the headers of a reply",
    "s3:PutObjectRetention": "asked for by a header of a request",
    "s3:PutObjectLegalHold": "asked for by a header of a request",
    "s3:RestoreObject": "neither server has an archive",
}
SHOWN = {
    "copy": {
        "s3:ListBucket",
        "s3:GetObject",
        "s3:PutObject",
        "s3:GetObjectTagging",
        "s3:PutObjectTagging",
        "s3:ListBucketMultipartUploads",
        "s3:AbortMultipartUpload",
        "s3:ListMultipartUploadParts",
    },
    "copy of one": {"s3:GetObjectVersion", "s3:GetObjectVersionTagging"},
    "sync": {"s3:DeleteObject"},
    "history": {"s3:ListBucketVersions"},
    "remove": {"s3:DeleteObjectVersion"},
}
"""Actions that a test sees used."""

BIG = 40 * MIB
"""Bytes that are uploaded in parts."""

Use = tuple[str, str]
"""An action and what it is about: ``bucket`` or ``bucket/key``."""


def uses(record: Record, *, carries_tags: bool, of_versions: bool) -> set[Use]:
    """What the request asks IAM for."""
    bucket, key = record.bucket, record.key
    if record.operation == "GetBucketEncryption":
        return {("s3:GetEncryptionConfiguration", f"{bucket}")}
    if record.operation in BUCKET_ACTIONS:
        return {(BUCKET_ACTIONS[record.operation], f"{bucket}")}
    plain, of_version = OBJECT_ACTIONS[record.operation]
    names_version = "versionId=" in record.path or (of_versions and record.operation == "DeleteObjects")
    action = of_version if of_version and names_version else plain
    found = {(action, f"{bucket}/{'*' if key is None else key}")}
    if record.copy_source is not None:
        source, _, version = unquote(record.copy_source).lstrip("/").partition("?versionId=")
        found.add(("s3:GetObjectVersion" if version else "s3:GetObject", source))
        if carries_tags and record.operation == "CopyObject":
            found |= {("s3:GetObjectVersionTagging" if version else "s3:GetObjectTagging", source)}
    if carries_tags and record.operation in ("CopyObject", "CreateMultipartUpload"):
        found.add(("s3:PutObjectTagging", f"{bucket}/{key}"))
    return found


def printed(*words: str) -> dict[str, Any]:
    with redirect_stdout(io.StringIO()) as out:
        assert app.run(["iam-policy", *words]) == 0
    return json.loads(out.getvalue())


def allows(policy: dict[str, Any], use: Use) -> Iterator[Use]:
    """The actions of the policy that allow this, each with its resource."""
    for statement in policy["Statement"]:
        pattern = statement["Resource"].removeprefix("arn:aws:s3:::")
        key_is_any = use[1].endswith("/*") and pattern.startswith(use[1][:-1])
        if use[0] in statement["Action"] and (key_is_any or fnmatch.fnmatchcase(use[1], pattern)):
            yield use[0], pattern


@dataclass
class Trial:
    """Commands with two buckets, through a recording proxy."""

    server: S3Server
    proxy: Proxy
    mover: Mover
    source: str
    target: str
    folder: Path
    seen: set[Use] = field(default_factory=set[Use])
    rights: set[Use] = field(default_factory=set[Use])

    def holds(
        self,
        words: tuple[str, ...],
        work: Callable[[], object],
        *,
        carries_tags: bool = True,
        of_versions: bool = False,
        may_lack: Container[str] = (),
    ) -> None:
        """Assert that each request of ``work`` is allowed by the policy printed for ``words``.

        Args:
            of_versions: requests that remove many objects name their versions.
            may_lack: actions that are tried, or objects that are asked for, whose refusal changes nothing on AWS.
        """
        policy = printed(*words)
        self.rights |= {
            (action, statement["Resource"].removeprefix("arn:aws:s3:::"))
            for statement in policy["Statement"]
            for action in statement["Action"]
        }
        self.proxy.clear_log()
        work()
        self.proxy.wait_idle()
        records = self.proxy.log()
        assert records
        for record in records:
            for use in uses(record, carries_tags=carries_tags, of_versions=of_versions):
                allowed = set(allows(policy, use))
                lacking = f"{record.operation} of {use[1]} needs {use[0]}, which `iam-policy {words}` lacks"
                assert allowed or use[0] in may_lack or use[1] in may_lack, lacking
                self.seen |= allowed

    def shows(self, case: str) -> None:
        """Assert that the rights of this case in ``SHOWN`` were used."""
        assert SHOWN[case] <= {action for action, _ in self.seen}

    def each_right_is_used(self) -> None:
        """Assert that nothing was printed for nothing."""
        unused = {right for right in self.rights - self.seen if right[0] not in EXCUSED}
        assert not unused, f"printed and never used: {sorted(unused)}"

    def command(self, *words: str) -> Callable[[], None]:
        def work() -> None:
            running = self.mover.start(*words)
            assert running.wait() == 0, str(running)

        return work

    def put(self, bucket: str, *keys: str) -> None:
        client = self.server.client()
        for key in keys:
            body = os.urandom(11 * MIB) if key.endswith("big") else key.encode()
            client.put_object(Bucket=bucket, Key=key, Body=body, Tagging="project=one")


@pytest.fixture
def trial(
    s3server: S3Server,
    make_proxy: Callable[[S3Server], Proxy],
    make_bucket: BucketFactory,
    make_mover: Callable[[S3Server], Mover],
    tmp_path: Path,
) -> Trial:
    proxy = make_proxy(s3server)
    source, target = (make_bucket(s3server, versioned=True) for _ in range(2))
    return Trial(s3server, proxy, make_mover(proxy.server), source, target, tmp_path)


@pytest.mark.every_server
def test_a_copy_its_repetition_and_one_that_was_cut_off(trial: Trial) -> None:
    trial.put(trial.source, "in/small", "in/big")
    places = (f"s3://{trial.source}/in/", f"s3://{trial.target}/out/")
    copy = trial.command("cp", *places, *SMALL_PARTS)

    trial.holds(places, copy)
    trial.holds(places, copy)
    trial.holds(places, trial.command("cp", *places, *SMALL_PARTS, "--verify", "content", "--if-exists", "overwrite"))

    def cut_off(verb: str) -> None:
        with held(trial.proxy, "UploadPartCopy"):
            running = trial.mover.start("cp", *places, *SMALL_PARTS, "--if-exists", "overwrite", "--json")
            trial.proxy.wait_held()
            running.kill()
        transfer_id = json.loads(running.stdout.splitlines()[0])["id"]
        trial.command(verb, transfer_id)()

    trial.holds(places, lambda: cut_off("resume"))
    trial.holds(places, lambda: cut_off("cancel"))
    trial.shows("copy")
    trial.each_right_is_used()


def test_a_copy_of_one_object_reads_the_version_that_it_found(trial: Trial) -> None:
    trial.put(trial.source, "in/small", "in/big")

    for key in ("small", "big"):
        places = (f"s3://{trial.source}/in/{key}", f"s3://{trial.target}/out/")
        trial.holds(places, trial.command("cp", *places, *SMALL_PARTS))

    trial.shows("copy of one")


@pytest.mark.every_server
def test_uploads_and_downloads(trial: Trial) -> None:
    (trial.folder / "run").mkdir()
    (trial.folder / "run" / "big").write_bytes(os.urandom(11 * MIB))
    (trial.folder / "run" / "small").write_bytes(b"small")
    up = (f"{trial.folder}/run/", f"s3://{trial.target}/up/")
    down = (f"s3://{trial.target}/up/", f"{trial.folder}/back/")

    trial.holds(up, trial.command("cp", *up, *SMALL_PARTS), carries_tags=False)
    trial.holds((*up, "--with", "tags"), trial.command("cp", *up, "--tags", "a=b", "--if-exists", "overwrite"))
    trial.holds(down, trial.command("cp", *down, *SMALL_PARTS))

    assert ("s3:PutObjectTagging", f"{trial.target}/up/*") in trial.rights


def test_a_mirror_that_removes(trial: Trial) -> None:
    trial.put(trial.source, "in/small", "in/big")
    trial.put(trial.target, "out/extra")
    places = (f"s3://{trial.source}/in/", f"s3://{trial.target}/out/")

    trial.holds((*places, "--operation", "sync"), trial.command("sync", *places, "--delete", *SMALL_PARTS))

    assert ("s3:DeleteObject", f"{trial.target}/out/*") in trial.seen
    trial.shows("sync")


@pytest.mark.every_server
def test_a_move(trial: Trial) -> None:
    trial.put(trial.source, "in/small", "in/big")
    places = (f"s3://{trial.source}/in/", f"s3://{trial.target}/out/")

    trial.holds((*places, "--operation", "move"), trial.command("mv", *places, *SMALL_PARTS))

    assert ("s3:DeleteObject", f"{trial.source}/in/*") in trial.seen


@pytest.mark.every_server
def test_all_versions(trial: Trial) -> None:
    trial.put(trial.source, "in/small", "in/small", "in/big")
    places = (f"s3://{trial.source}/in/", f"s3://{trial.target}/out/")

    trial.holds((*places, "--operation", "history"), trial.command("cp", *places, "--all-versions", *SMALL_PARTS))

    trial.shows("history")
    assert ("s3:GetObjectVersion", f"{trial.source}/in/*") in trial.seen


def test_archives(trial: Trial) -> None:
    trial.put(trial.source, "in/small", "in/big")
    packed = (f"s3://{trial.source}/in/", f"s3://{trial.target}/x.tar")
    unpacked = (f"s3://{trial.target}/x.tar", f"s3://{trial.source}/out/")

    trial.holds((*packed, "--operation", "pack"), trial.command("pack", *packed), carries_tags=False)
    trial.holds((*unpacked, "--operation", "unpack"), trial.command("unpack", *unpacked), carries_tags=False)


def test_comparisons_and_removals_are_held_to_their_rights(trial: Trial) -> None:
    trial.put(trial.source, "in/small", "in/big")
    places = (f"s3://{trial.source}/in/", f"s3://{trial.target}/out/")
    running = trial.mover.start("cp", *places, "--json")
    assert running.wait() == 0, str(running)
    transfer_id = json.loads(running.stdout.splitlines()[0])["id"]

    trial.holds((*places, "--operation", "check"), trial.command("check", *places, "--verify", "content"))
    trial.holds((places[1], "--operation", "verify"), trial.command("verify", transfer_id, "--content"))
    trial.holds((places[1], "--operation", "remove"), trial.command("rm", f"s3://{trial.target}/out/small"))
    trial.holds(
        (places[1], "--operation", "remove", "--with", "versions"),
        trial.command("rm", places[1], "--recursive", "--all-versions", "--yes"),
        of_versions=True,
    )
    trial.shows("remove")
    # `verify` lists nothing; without the right an absent object cannot be told from a forbidden one.
    trial.each_right_is_used()


def test_a_cleanup(trial: Trial) -> None:
    trial.server.client().create_multipart_upload(Bucket=trial.target, Key="out/a")
    place = f"s3://{trial.target}/out/"

    def clean() -> None:
        trial.command("cleanup", place, "--older-than", "1s", "--yes")()
        assert not trial.server.client().list_multipart_uploads(Bucket=trial.target).get("Uploads")

    eventually(lambda: _passes(lambda: trial.holds((place, "--operation", "cleanup"), clean)), what="the cleanup")

    trial.each_right_is_used()


def _passes(check: Callable[[], object]) -> bool:
    try:
        check()
    except AssertionError:
        return False
    return True


def _needs(missing: str | None) -> None:
    if missing is not None:
        if os.environ.get("SEQFERRY_REQUIRE_SERVERS") == "1":
            pytest.fail(missing, pytrace=False)
        pytest.skip(missing)


def test_a_mount(trial: Trial) -> None:
    _needs(missing_fuse())
    trial.put(trial.source, "in/small", "in/big")
    place = f"s3://{trial.source}/in/"
    mounter = Mounter(trial.folder)

    def look() -> None:
        mount = mounter(trial.proxy.server, place)
        assert sorted(one.name for one in mount.directory.iterdir()) == ["big", "small"]
        assert len((mount.directory / "big").read_bytes()) == 11 * MIB
        mount.umount()

    try:
        trial.holds((place, "--operation", "mount"), look)
    finally:
        mounter.close()
    trial.each_right_is_used()


def test_a_gateway(trial: Trial) -> None:
    _needs(missing_libnfs())
    trial.put(trial.source, "in/small")
    place = f"s3://{trial.source}/in/"

    def look() -> None:
        shares = ServedShares(trial.folder, trial.proxy.server, f'[[share]]\nname = "runs"\nsource = "{place}"\n')
        try:
            assert read(shares, "/runs/small") == b"in/small"
        finally:
            shares.close()

    trial.holds((place, "--operation", "gateway"), look)
    trial.each_right_is_used()


def _edit(folder: Path) -> None:
    """Change a tagged object, give another one a name, remove a third, and write new files."""
    with (folder / "changed").open("r+b") as file:
        file.seek(1)
        file.write(b"X")
    (folder / "named").rename(folder / "renamed")
    (folder / "gone").unlink()
    (folder / "new").mkdir()
    (folder / "new" / "big").write_bytes(os.urandom(BIG))


def test_a_mount_that_is_written_and_was_killed_while_it_uploaded(trial: Trial) -> None:
    _needs(missing_fuse())
    trial.put(trial.source, *(f"in/{name}" for name in ("changed", "named", "gone")))
    place = f"s3://{trial.source}/in"
    mounter = Mounter(trial.folder)
    options = ("--read-write", "--cache", str(trial.folder / "cache"))

    def write() -> None:
        with held(trial.proxy, "UploadPart", key="in/new/big"):
            mount, serving = mounter.foreground(trial.proxy.server, place, *options)
            _edit(mount.directory)
            trial.proxy.wait_held()
            serving.kill()
        mount.umount()
        _is_uploaded(trial, mounter(trial.proxy.server, place, *options))

    try:
        # Versions are listed to find services that take a delete marker for an object, as S3 does not. A claim above
        # the prefix that may not be read is not seen.
        words = (place, "--operation", "mount", "--with", "writing")
        trial.holds(words, write, may_lack={"s3:ListBucketVersions", f"{trial.source}/{CLAIM}"})
    finally:
        mounter.close()
    trial.each_right_is_used()


def _is_uploaded(trial: Trial, mount: Mount) -> None:
    mount.umount()
    gone(mount)
    client = trial.server.client()

    def found() -> dict[str, int]:
        listed = client.list_objects_v2(Bucket=trial.source, Prefix="in/").get("Contents", ())
        return {one["Key"].removeprefix("in/"): one["Size"] for one in listed if not one["Key"].endswith("/")}

    wanted = {"changed": len("in/changed"), "renamed": len("in/named"), "new/big": BIG}
    eventually(lambda: found() == wanted, what="the bucket to have what was written")
    for key in ("changed", "renamed"):
        tags = client.get_object_tagging(Bucket=trial.source, Key=f"in/{key}")["TagSet"]
        assert tags == [{"Key": "project", "Value": "one"}], key
    assert client.get_object(Bucket=trial.source, Key="in/changed")["Body"].read() == b"iX/changed"


def test_each_right_is_shown_or_excused() -> None:
    known = {right.action for rights in permissions.RIGHTS.values() for right in rights}

    assert set().union(*SHOWN.values()) | set(EXCUSED) == known


UNKNOWN_TO_VERSITYGW = {"s3:GetEncryptionConfiguration", "s3:GetObjectVersionTagging"}


@pytest.fixture
def granted(versitygw: S3Server) -> Iterator[Callable[[str, dict[str, Any]], None]]:
    """``granted(bucket, policy)``: ``mover`` has these rights on a bucket of another owner, and no others."""

    def grant(bucket: str, policy: dict[str, Any]) -> None:
        versitygw.client(ADMIN).create_bucket(Bucket=bucket)
        made.append(bucket)
        statements = [
            {
                "Effect": "Allow",
                "Principal": versitygw.policy_principal,
                "Action": [one for one in statement["Action"] if one not in UNKNOWN_TO_VERSITYGW],
                "Resource": statement["Resource"],
            }
            for statement in policy["Statement"]
            if statement["Resource"].split(":::")[1].partition("/")[0] == bucket
        ]
        body = json.dumps({"Version": policy["Version"], "Statement": statements})
        versitygw.client(ADMIN).put_bucket_policy(Bucket=bucket, Policy=body)

    made: list[str] = []
    yield grant
    for bucket in made:
        versitygw.delete_bucket(bucket)


@pytest.mark.parametrize(("operation", "verb"), [("copy", "cp"), ("move", "mv")])
def test_the_printed_rights_are_enough_and_others_are_refused(
    versitygw: S3Server,
    granted: Callable[[str, dict[str, Any]], None],
    make_mover: Callable[[S3Server], Mover],
    operation: str,
    verb: str,
    seed: int,
) -> None:
    source, target = (f"rights-{operation}-{side}-{seed:08x}" for side in ("source", "target"))
    places = (f"s3://{source}/in/", f"s3://{target}/out/")
    policy = printed(*places, "--operation", operation)
    for bucket in (source, target):
        granted(bucket, policy)
    admin = versitygw.client(ADMIN)
    body = os.urandom(11 * MIB)
    admin.put_object(Bucket=source, Key="in/small", Body=b"small", Tagging="project=one")
    admin.put_object(Bucket=source, Key="in/big", Body=body, Tagging="project=one")
    admin.put_object(Bucket=source, Key="other/secret", Body=b"secret")

    code, summary, err = make_mover(versitygw).copy(*places, *SMALL_PARTS, verb=verb)

    assert (code, summary["objects_done"]) == (0, 2), f"{summary}\n{err}"
    assert admin.get_object(Bucket=target, Key="out/big")["Body"].read() == body
    tags = admin.get_object_tagging(Bucket=target, Key="out/small")["TagSet"]
    assert tags == [{"Key": "project", "Value": "one"}]
    left = {one["Key"] for one in admin.list_objects_v2(Bucket=source).get("Contents", ())}
    assert left == ({"other/secret"} if operation == "move" else {"in/small", "in/big", "other/secret"})
    mover = versitygw.client(versitygw.user)
    for forbidden in (
        lambda: mover.get_object(Bucket=source, Key="other/secret"),
        lambda: mover.put_object(Bucket=source, Key="in/new", Body=b""),
        lambda: mover.put_object(Bucket=target, Key="new", Body=b""),
    ):
        with pytest.raises(ClientError, match="AccessDenied"):
            forbidden()


def test_the_printed_rights_are_enough_for_a_share_that_is_written_and_end_with_its_prefix(
    versitygw: S3Server,
    granted: Callable[[str, dict[str, Any]], None],
    tmp_path: Path,
    seed: int,
) -> None:
    _needs(missing_fuse() or missing_libnfs())
    bucket = f"rights-share-{seed:08x}"
    place = f"s3://{bucket}/runs/"
    granted(bucket, printed(place, "--operation", "gateway", "--with", "writing"))
    admin = versitygw.client(ADMIN)
    for name in ("changed", "named", "gone"):
        admin.put_object(Bucket=bucket, Key=f"runs/{name}", Body=name.encode(), Tagging="project=one")
    expected = {"changed": 7, "renamed": 5, "new/big": BIG, "small": 5, "parts": BIG}

    def sizes() -> dict[str, int]:
        listed = admin.list_objects_v2(Bucket=bucket)["Contents"]
        return {one["Key"].removeprefix("runs/"): one["Size"] for one in listed if not one["Key"].endswith("/")}

    mounter = Mounter(tmp_path)
    shares = WrittenShares(tmp_path, versitygw, written_share("runs", place, "settle = 1"))
    try:
        shares.write("runs/small", b"small")
        shares.write("runs/parts", os.urandom(BIG))
        shares.ask("flush", "--wait")
        shares.ask("drain")
        mount = mounter(versitygw, place, "--read-write", "--cache", str(tmp_path / "cache-of-mount"))
        _edit(mount.directory)
        run(
            [seqferry(), "gateway", "flush", "--wait", "--cache", tmp_path / "cache-of-mount"],
            environment=mount.environment,
        )
        mount.umount()
        # The process of the mount ends after the folder, and removes its claim then.
        eventually(lambda: sizes() == expected, what="the bucket to have the files, and no claim")
    finally:
        mounter.close()
        shares.close()
    tags = admin.get_object_tagging(Bucket=bucket, Key="runs/renamed")["TagSet"]
    assert tags == [{"Key": "project", "Value": "one"}]
    with pytest.raises(ClientError, match="AccessDenied"):
        versitygw.client(versitygw.user).put_object(Bucket=bucket, Key="other", Body=b"")


def test_a_share_that_is_written_is_refused_with_the_rights_of_one_that_is_read(
    versitygw: S3Server,
    granted: Callable[[str, dict[str, Any]], None],
    tmp_path: Path,
    seed: int,
) -> None:
    bucket = f"rights-read-share-{seed:08x}"
    place = f"s3://{bucket}/runs/"
    granted(bucket, printed(place, "--operation", "gateway"))
    config = tmp_path / "gateway.toml"
    config.write_text(written_share("runs", place))
    environment = {
        **versitygw.environment(),
        "SEQFERRY_CONFIG": str(config),
        "SEQFERRY_STATE_DIR": str(tmp_path / "state"),
    }

    refused = run(
        [seqferry(), "gateway", "serve", "--port", "0", "--cache", tmp_path / "cache"],
        environment=environment,
        expect=None,
    )

    assert refused.returncode not in (0, None)
    assert "s3:PutObject" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
